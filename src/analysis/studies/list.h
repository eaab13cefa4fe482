// The studies, for the list in study.cpp.
#pragma once

#include "analysis/study.h"

namespace satformer {

void study_gates(const StudyInput& input, StudyResult& result);
void study_positions(const StudyInput& input, StudyResult& result);
void study_heads(const StudyInput& input, StudyResult& result);
void study_relations(const StudyInput& input, StudyResult& result);
void study_kinds(const StudyInput& input, StudyResult& result);
void study_interventions(const StudyInput& input, StudyResult& result);
void study_strength(const StudyInput& input, StudyResult& result);
void study_lens(const StudyInput& input, StudyResult& result);
void study_identity(const StudyInput& input, StudyResult& result);
void study_gradients(const StudyInput& input, StudyResult& result);
void study_tokens(const StudyInput& input, StudyResult& result);
void study_prompt(const StudyInput& input, StudyResult& result);
void study_contrast(const StudyInput& input, StudyResult& result);
void study_training(const StudyInput& input, StudyResult& result);

}  // namespace satformer
