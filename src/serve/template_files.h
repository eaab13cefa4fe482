// The chat templates in the files beside a tokenizer.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"

namespace satformer::serve {

struct TemplateFiles {
  struct Source {
    std::string name;  // "default" where there is one alone
    std::string text;
    std::string origin;  // for messages
  };
  std::vector<Source> sources;
  Json tokens = Json::object();  // bos_token, eos_token, ... as texts
};
// chat_template.jinja and additional_chat_templates/NAME.jinja, else "chat_template" of tokenizer_config.json: a
// text, or a list of {"name", "template"}. Error(data) for other forms.
TemplateFiles read_template_files(const std::string& directory);
// Where they are looked for: beside the tokenizer that was named, else beside the model.
std::string template_folder(const std::string& tokenizer, const std::string& model_directory);

}  // namespace satformer::serve
