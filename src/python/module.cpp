// The Python module satformer._satformer.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "base/error.h"
#include "io/tokenizer.h"
#include "nn/device.h"
#include "python/python_model.h"

namespace py = pybind11;

namespace satformer::python {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

GenerateOptions generate_options(std::int64_t max_new_tokens, double temperature, std::int64_t top_k, double top_p,
                                 double min_p, double repetition_penalty, std::uint64_t seed,
                                 std::optional<std::int64_t> stop_token) {
  GenerateOptions options;
  options.max_new_tokens = max_new_tokens;
  options.sampling.temperature = temperature;
  options.sampling.top_k = top_k;
  options.sampling.top_p = top_p;
  options.sampling.min_p = min_p;
  options.sampling.repetition_penalty = repetition_penalty;
  options.sampling.seed = seed;
  options.stop_token = stop_token;
  return options;
}

py::bytes decode(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) { return tokenizer.decode(ids); }

}  // namespace

PYBIND11_MODULE(_satformer, m) {
  m.doc() = "Decoders that reach back to early representations; see the package satformer.";
  static py::exception<Error> error(m, "Error", PyExc_RuntimeError);
  error.doc() = "What the program would say; `code` is its exit code (docs/exit-codes.md).";
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& e) {
      const py::object instance = py::handle(error.ptr())(e.what());
      instance.attr("code") = static_cast<int>(e.code());
      PyErr_SetObject(error.ptr(), instance.ptr());
    }
  });
  m.attr("__version__") = SATFORMER_VERSION;
  m.def("set_num_threads", &set_num_threads, "CPU threads of the kernels (0: all)", py::arg("threads"));

  py::class_<Tokenizer, std::shared_ptr<Tokenizer>>(m, "Tokenizer")
      .def(py::init([](const std::string& spec) { return std::shared_ptr<Tokenizer>(load_tokenizer(spec)); }),
           py::arg("spec"))
      .def(
          "encode", [](const Tokenizer& t, const std::string& text) { return t.encode(text); }, py::arg("text"))
      .def("decode_bytes", &decode, py::arg("ids"))
      .def_property_readonly("vocab_size", &Tokenizer::vocab_size)
      .def_property_readonly("eos_id", &Tokenizer::eos_id)
      .def_property_readonly("bos_id", &Tokenizer::bos_id);

  py::class_<PythonModel>(m, "Model")
      .def(py::init<const std::string&, const std::string&, const std::string&>(), py::arg("path"),
           py::arg("device") = "cpu", py::arg("dtype") = "float32", NoGil())
      .def_property_readonly("directory", &PythonModel::directory)
      .def_property_readonly("architecture", [](const PythonModel& p) { return p.model().architecture(); })
      .def("config_json", &PythonModel::config)
      .def("parameters", &PythonModel::parameters)
      .def("logits", &PythonModel::logits, py::arg("ids"), py::arg("attention_mask") = py::none(), NoGil())
      .def("loss", &PythonModel::loss, py::arg("ids"), py::arg("targets"), NoGil())
      .def("gates", &PythonModel::gates, py::arg("ids"), NoGil())
      .def(
          "generate_ids",
          [](PythonModel& p, const std::vector<std::vector<std::int64_t>>& prompts, std::int64_t max_new_tokens,
             double temperature, std::int64_t top_k, double top_p, double min_p, double repetition_penalty,
             std::uint64_t seed, std::optional<std::int64_t> stop_token) {
            const GenerateOptions options = generate_options(max_new_tokens, temperature, top_k, top_p, min_p,
                                                             repetition_penalty, seed, stop_token);
            const py::gil_scoped_release released;
            return p.generate(prompts, options);
          },
          py::arg("prompts"), py::kw_only(), py::arg("max_new_tokens"), py::arg("temperature"), py::arg("top_k"),
          py::arg("top_p"), py::arg("min_p"), py::arg("repetition_penalty"), py::arg("seed"), py::arg("stop_token"));
}

}  // namespace satformer::python
