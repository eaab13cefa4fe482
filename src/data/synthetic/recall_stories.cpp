// Recall stories: facts about people, sentences that say nothing about them, then questions with their answers.
// Every word is encoded by itself, so that each token has the kind of its word.
#include <algorithm>
#include <map>
#include <memory>
#include <span>

#include "base/count_of.h"
#include "data/synthetic/check.h"
#include "data/synthetic/story_words.h"
#include "data/synthetic/task.h"

namespace satformer::synthetic {
namespace {

// A word or mark of a sentence: `text` as it stands, or the place that a word fills.
struct Part {
  std::string text;
  std::string place;
  bool asked = false, glued = false;  // glued: no space before it
  TokenKind kind = TokenKind::content;
};
using Sentence = std::vector<Part>;

TokenKind kind_of_word(std::string word) {
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(function_words.begin(), function_words.end(), word) == function_words.end() ? TokenKind::content
                                                                                               : TokenKind::function;
}

Sentence parse(std::string_view text) {
  Sentence sentence;
  for (std::size_t at = 0; at < text.size();) {
    const bool glued = at > 0 && text[at - 1] != ' ';
    if (text[at] == ' ') {
      ++at;
    } else if (text[at] == '{') {
      const std::size_t end = text.find('}', at);
      const bool asked = text[at + 1] == '*';
      const std::size_t name = at + 1 + (asked ? 1 : 0);
      sentence.push_back(
          {.text = {}, .place = std::string(text.substr(name, end - name)), .asked = asked, .glued = glued});
      at = end + 1;
    } else if (const std::size_t end = std::min(text.find_first_of(" {.,?", at), text.size()); end > at) {
      const std::string word(text.substr(at, end - at));
      sentence.push_back({.text = word, .place = {}, .glued = glued, .kind = kind_of_word(word)});
      at = end;
    } else {
      sentence.push_back(
          {.text = std::string(1, text[at]), .place = {}, .glued = true, .kind = TokenKind::structure});
      ++at;
    }
  }
  return sentence;
}

std::span<const std::string_view> words_of(const std::string& place) {
  if (place == "name") return story_names;
  if (place == "job") return story_jobs;
  if (place == "town") return story_towns;
  if (place == "colour") return story_colours;
  if (place == "thing") return story_things;
  if (place == "animal") return story_animals;
  fail(ExitCode::internal, "stories have no place {", place, "}");
}

std::vector<std::string> fillings(const std::string& place) {
  std::vector<std::string> all;
  if (place == "number") {
    for (int n = first_number; n <= last_number; ++n) all.push_back(std::to_string(n));
  } else {
    for (const std::string_view word : words_of(place)) all.emplace_back(word);
  }
  return all;
}

using Fact = std::map<std::string, std::string>;  // place to word, and "form"

struct Form {
  Sentence statement, ask_value, ask_name;
};

struct Forms {
  std::vector<Form> facts;
  std::vector<Sentence> fillers;
  Forms() {
    for (const FactForm& form : fact_forms) {
      facts.push_back({parse(form.statement), parse(form.ask_value), parse(form.ask_name)});
    }
    for (const std::string_view text : distractions) fillers.push_back(parse(text));
  }
};

// People with different names, and no two of one form with the same word in any place, so that every question has one
// answer.
std::vector<Fact> draw_facts(Draws& draws, std::int64_t count) {
  const auto name = draws.distinct(count, static_cast<std::int64_t>(story_names.size()));
  std::vector<Fact> facts;
  std::map<std::string, std::vector<std::string>> used;  // by form and place
  for (const std::int64_t who : name) {
    Fact fact;
    for (bool fresh = false; !fresh;) {
      const auto form = static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(fact_forms.size())));
      fact = {{"name", std::string(story_names[static_cast<std::size_t>(who)])}, {"form", std::to_string(form)}};
      std::string told;
      for (const std::string_view place : fact_forms[form].told) {
        if (place.empty()) continue;
        const std::string key(place);
        if (key == "number") {
          fact[key] = std::to_string(draws.between(first_number, last_number));
        } else {
          const auto words = words_of(key);
          fact[key] =
              std::string(words[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(words.size())))]);
        }
        told += fact[key] + " ";
      }
      auto& taken = used[fact["form"]];
      fresh = std::find(taken.begin(), taken.end(), told) == taken.end();
      if (fresh) taken.push_back(told);
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

const Form& form_of(const Forms& forms, const Fact& fact) {
  return forms.facts[static_cast<std::size_t>(std::stoul(fact.at("form")))];
}

class StoryMaker {
 public:
  StoryMaker(const SyntheticOptions& options, const Tokenizer& tokenizer) : o_(options), eos_(tokenizer.eos_id()) {
    std::int64_t statement = 0, question = 0;
    for (const Form& form : forms_.facts) {
      statement = std::max(statement, learn(form.statement, tokenizer));
      question = std::max({question, learn(form.ask_value, tokenizer), learn(form.ask_name, tokenizer)});
    }
    for (const Sentence& filler : forms_.fillers) learn(filler, tokenizer);
    for (const std::string& name : fillings("name")) first_words_[name] = tokenizer.encode(name);
    line_end_ = tokenizer.encode_continued("\n");
    question += static_cast<std::int64_t>(line_end_.size());
    const std::int64_t least = o_.questions > 0 ? number_of_questions(o_) : 1;
    // A document's first word may take a token more.
    need_length(o_, o_.pairs * statement + least * question + 2,
                concat(o_.pairs, " facts and ", count_of(least, "question"),
                       " in the longest words that this tokenizer makes of them"));
    const std::int64_t fit = (o_.seq_length - 2 - o_.pairs * statement) / question;
    asked_ = o_.questions > 0 ? o_.questions : std::min(o_.pairs, fit);
  }

  SyntheticExample operator()(Draws& draws) const {
    const std::vector<Fact> facts = draw_facts(draws, o_.pairs);
    std::int64_t length = 2;  // the first word's token more, and the end
    for (const Fact& fact : facts) length += length_of(form_of(forms_, fact).statement, fact);
    std::vector<std::pair<const Sentence*, const Fact*>> questions;
    for (const std::int64_t i : draws.distinct(asked_, o_.pairs)) {
      const Fact& fact = facts[static_cast<std::size_t>(i)];
      const Form& form = form_of(forms_, fact);
      questions.emplace_back(draws.below(3) == 0 ? &form.ask_name : &form.ask_value, &fact);
      length += length_of(*questions.back().first, fact) + static_cast<std::int64_t>(line_end_.size());
    }
    // Fillers until one does not fit: half of them between the facts, half after the last.
    std::vector<std::vector<const Sentence*>> after(facts.size());
    while (true) {
      const auto which = static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(forms_.fillers.size())));
      const Sentence& filler = forms_.fillers[which];
      length += length_of(filler, {});
      if (length > o_.seq_length) break;
      const auto last = static_cast<std::int64_t>(facts.size()) - 1;
      after[static_cast<std::size_t>(draws.below(2) == 0 ? last : draws.below(last + 1))].push_back(&filler);
    }
    SyntheticExample example;
    for (std::size_t i = 0; i < facts.size(); ++i) {
      add(form_of(forms_, facts[i]).statement, facts[i], example);
      for (const Sentence* filler : after[i]) add(*filler, {}, example);
    }
    for (const auto& [sentence, fact] : questions) {
      for (const std::int32_t id : line_end_) example.add(id, TokenKind::structure);
      add(*sentence, *fact, example);
    }
    while (example.size() < o_.seq_length) example.add(eos_, TokenKind::structure);
    return example;
  }

 private:
  // Encodes all that may stand in the sentence; the most tokens that it can have.
  std::int64_t learn(const Sentence& sentence, const Tokenizer& tokenizer) {
    std::int64_t most = 0;
    for (const Part& part : sentence) {
      std::int64_t longest = 0;
      for (const std::string& word :
           part.place.empty() ? std::vector<std::string>{part.text} : fillings(part.place)) {
        const std::string text = (part.glued ? "" : " ") + word;
        auto& ids = words_[text];
        if (ids.empty()) ids = tokenizer.encode_continued(text);
        // The first word of a question stands after a line end.
        auto& bare = words_[word];
        if (bare.empty()) bare = tokenizer.encode_continued(word);
        longest = std::max({longest, static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(bare.size())});
      }
      most += longest;
    }
    return most;
  }

  static const std::string& text_of(const Part& part, const Fact& fact) {
    return part.place.empty() ? part.text : fact.at(part.place);
  }

  std::int64_t length_of(const Sentence& sentence, const Fact& fact) const {
    std::int64_t length = 0;
    for (const Part& part : sentence) {
      const std::string& word = text_of(part, fact);
      const auto spaced = words_.find(" " + word), bare = words_.find(word);
      std::size_t size = bare->second.size();
      if (!part.glued && spaced != words_.end()) size = std::max(size, spaced->second.size());
      length += static_cast<std::int64_t>(size);
    }
    return length;
  }

  void add(const Sentence& sentence, const Fact& fact, SyntheticExample& example) const {
    bool first = true;
    for (const Part& part : sentence) {
      const std::string& word = text_of(part, fact);
      const bool starts_line = first && !example.ids.empty() && example.ids.back() == line_end_.back();
      const auto& ids = example.ids.empty()         ? first_words_.at(word)
                        : part.glued || starts_line ? words_.at(word)
                                                    : words_.at(" " + word);
      for (const std::int32_t id : ids) example.add(id, part.kind, part.asked);
      first = false;
    }
  }

  SyntheticOptions o_;
  std::int32_t eos_;
  Forms forms_;
  std::map<std::string, std::vector<std::int32_t>> words_, first_words_;  // with and without the space before
  std::vector<std::int32_t> line_end_;
  std::int64_t asked_ = 0;
};

ExampleMaker make_recall_stories(const SyntheticOptions& o, const Tokenizer* tokenizer) {
  const auto people = static_cast<std::int64_t>(story_names.size());
  if (o.pairs > people) {
    fail(ExitCode::config, "recall_stories: pairs = ", o.pairs, " is more than the ", people, " people there are");
  }
  const auto maker = std::make_shared<const StoryMaker>(o, *tokenizer);
  return [maker](Draws& draws) { return (*maker)(draws); };
}

void append(const Sentence& sentence, const Fact& fact, std::string& text) {
  for (const Part& part : sentence) {
    if (!part.glued && !text.empty() && text.back() != '\n') text += ' ';
    text += part.place.empty() ? part.text : fact.at(part.place);
  }
}

}  // namespace

SyntheticTask recall_stories() {
  return {.name = "recall_stories",
          .summary = "facts about people in English-like text, asked for after distractions",
          .options = {"pairs", "questions"},
          .targets = {TokenKind::content},
          .text = true,
          .make = make_recall_stories};
}

}  // namespace satformer::synthetic

namespace satformer {

std::vector<std::string> story_samples(std::uint64_t seed, std::int64_t count) {
  const synthetic::Forms forms;
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < count; ++i) {
    Draws draws(seed, "story_samples", i);
    std::string text;
    const std::vector<synthetic::Fact> facts = synthetic::draw_facts(draws, 6);
    for (const synthetic::Fact& fact : facts) {
      synthetic::append(synthetic::form_of(forms, fact).statement, fact, text);
      const auto filler = draws.below(static_cast<std::int64_t>(forms.fillers.size()));
      synthetic::append(forms.fillers[static_cast<std::size_t>(filler)], {}, text);
    }
    for (const synthetic::Fact& fact : facts) {
      text += '\n';
      const synthetic::Form& form = synthetic::form_of(forms, fact);
      synthetic::append(draws.below(3) == 0 ? form.ask_name : form.ask_value, fact, text);
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace satformer
