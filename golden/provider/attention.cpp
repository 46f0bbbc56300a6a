#include "golden/provider/attention.h"

#include <cmath>

#include "golden/provider/library.h"
#include "kernels/cuda/device.h"

#ifdef H3_HAVE_CUDNN_FRONTEND
#include <cudnn_frontend.h>
#include <dlfcn.h>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the headers call cuDNN through it
}
#endif

namespace h3::golden::provider {
namespace {

const Library& cudnn() {
  static const Library library("libcudnn.so.9");
  return library;
}

}  // namespace

std::string cudnn_version() {
  return cudnn().missing().empty() ? std::to_string(cudnn().symbol<std::size_t()>("cudnnGetVersion")()) : "";
}

#ifndef H3_HAVE_CUDNN_FRONTEND

std::string attention_missing() { return "built without the cudnn_frontend headers"; }

Tensor attention(const Tensor&, const Tensor&, const Tensor&) {
  fail("provider attention: {}", attention_missing());
}

#else

namespace {

namespace fe = cudnn_frontend;

struct Handle {
  cudnnHandle_t value = nullptr;
  Handle() {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);  // open already: the same handle again
    require(fe::detail::create_handle(&value) == CUDNN_STATUS_SUCCESS,
            "provider attention: cudnnCreate failed");
  }
  ~Handle() { fe::detail::destroy_handle(value); }
};

void check(fe::error_object status, const char* what) {
  require(status.is_good(), "provider attention: {}: {}", what, status.get_message());
}

}  // namespace

std::string attention_missing() { return cudnn().missing(); }

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (const std::string missing = attention_missing(); !missing.empty())
    fail("provider attention: {}", missing);
  constexpr const char* kName = "provider attention";
  require(q.shape().size() == 3 && q.shape()[2] == 128, "{}: q is {}, expected (S,heads,128)", kName,
          to_string(q.shape()));
  for (const auto& [argument, tensor] : {std::pair{"q", &q}, {"k", &k}, {"v", &v}})
    cuda::require_tensor(kName, argument, *tensor, DType::bf16, q.shape());
  static const Handle handle;
  const std::int64_t rows = q.shape()[0], heads = q.shape()[1], d = q.shape()[2];
  const std::vector<std::int64_t> dims = {1, heads, rows, d}, strides = {rows * heads * d, d, heads * d, 1};

  fe::graph::Graph graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto operand = [&](const char* name) {
    return graph.tensor(fe::graph::Tensor_attributes().set_name(name).set_dim(dims).set_stride(strides));
  };
  const auto q_in = operand("Q"), k_in = operand("K"), v_in = operand("V");
  auto outputs =
      graph.sdpa(q_in, k_in, v_in,
                 fe::graph::SDPA_attributes().set_name("SDPA").set_generate_stats(false).set_attn_scale(
                     float(1 / std::sqrt(double(d)))));
  const auto o = outputs[0];
  o->set_output(true).set_dim(dims).set_stride(strides);
  check(graph.validate(), "graph");
  check(graph.build_operation_graph(handle.value), "operation graph");
  check(graph.create_execution_plans({fe::HeurMode_t::A}), "execution plans");
  check(graph.check_support(), "support");
  check(graph.build_plans(), "plans");

  Tensor y = cuda::allocate(DType::bf16, q.shape());
  std::int64_t workspace_bytes = 0;
  check(graph.get_workspace_size(workspace_bytes), "workspace");
  Tensor workspace = cuda::allocate(DType::fp32, {workspace_bytes / 4 + 1});
  const auto address = [](const Tensor& t) { return const_cast<void*>(static_cast<const void*>(t.bytes())); };
  std::unordered_map<std::shared_ptr<fe::graph::Tensor_attributes>, void*> memory = {
      {q_in, address(q)}, {k_in, address(k)}, {v_in, address(v)}, {o, address(y)}};
  check(graph.execute(handle.value, memory, workspace.bytes()), "execution");
  cuda::synchronize();  // before the workspace goes
  return y;
}

#endif

}  // namespace h3::golden::provider
