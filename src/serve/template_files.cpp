#include "serve/template_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"

namespace satformer::serve {
namespace {

namespace fs = std::filesystem;

void add_listed(const Json& list, const std::string& origin, TemplateFiles& files) {
  for (const Json& item : list) {
    if (!item.is_object() || !item.contains("name") || !item["name"].is_string() || !item.contains("template") ||
        !item["template"].is_string()) {
      fail(ExitCode::data, origin, ": a list must hold objects with \"name\" and \"template\"");
    }
    const std::string name = item["name"].get<std::string>();
    files.sources.push_back({name, item["template"].get<std::string>(), concat(origin, " '", name, "'")});
  }
}

void add_tokens(const Json& settings, TemplateFiles& files) {
  for (const auto& [key, value] : settings.items()) {
    if (!key.ends_with("_token")) continue;
    const Json& text = value.is_object() && value.contains("content") ? value["content"] : value;
    if (text.is_string()) files.tokens[key] = text;
  }
}

}  // namespace

TemplateFiles read_template_files(const std::string& directory) {
  TemplateFiles files;
  const fs::path folder(directory);
  const std::string one = (folder / "chat_template.jinja").string();
  if (fs::exists(one)) files.sources.push_back({"default", read_file(one), one});
  std::error_code none;
  std::vector<fs::path> more;
  for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", none)) {
    if (entry.path().extension() == ".jinja") more.push_back(entry.path());
  }
  std::sort(more.begin(), more.end());
  for (const fs::path& path : more) {
    files.sources.push_back({path.stem().string(), read_file(path.string()), path.string()});
  }
  const std::string path = (folder / "tokenizer_config.json").string();
  if (!fs::exists(path)) return files;
  const Json settings = read_json_file(path, ExitCode::data);
  if (!settings.is_object()) return files;
  add_tokens(settings, files);
  const Json found = settings.contains("chat_template") ? settings["chat_template"] : Json();
  if (!files.sources.empty() || found.is_null()) return files;
  const std::string origin = path + ": chat_template";
  if (found.is_string()) {
    files.sources.push_back({"default", found.get<std::string>(), origin});
  } else if (found.is_array()) {
    add_listed(found, origin, files);
  } else {
    fail(ExitCode::data, origin, ": expected a text or a list of {\"name\", \"template\"}");
  }
  return files;
}

std::string template_folder(const std::string& tokenizer, const std::string& model_directory) {
  if (tokenizer.empty() || tokenizer == "byte") return model_directory;
  std::error_code ignored;
  return fs::is_directory(tokenizer, ignored) ? tokenizer : fs::absolute(tokenizer).parent_path().string();
}

}  // namespace satformer::serve
