#include "golden/provider/products.h"

#include <cublasLt.h>
#include <cublas_v2.h>

#include "golden/provider/library.h"
#include "kernels/cuda/device.h"

namespace h3::golden::provider {
namespace {

constexpr std::int64_t kWorkspaceBytes = std::int64_t(32) << 20;  // PyTorch's choice on Hopper

void check(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, "provider: {}: cuBLAS status {}", what, int(status));
}

// Spelled out: the header overloads the name in C++.
using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void*, const void*, cudaDataType, int, const void*, cudaDataType, int,
                              const void*, void*, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

// A cublasLt object that is destroyed with its own function.
template <class Handle>
struct Owned {
  Handle handle = nullptr;
  cublasStatus_t (*destroy)(Handle) = nullptr;
  ~Owned() {
    if (handle != nullptr) destroy(handle);
  }
};

}  // namespace

Variant variant_named(const std::string& name) {
  if (name == "default") return Variant::standard;
  if (name == "cublaslt") return Variant::cublaslt;
  fail("provider: variant '{}': expected default or cublaslt", name);
}

// The functions used, by their names in the libraries.
struct Products::Libraries {
  Library lt{"libcublasLt.so.13"}, cublas{"libcublas.so.13"};
#define H3_FUNCTION(library, name) decltype(::name)* name = library.symbol<decltype(::name)>(#name)
  H3_FUNCTION(cublas, cublasCreate_v2);
  H3_FUNCTION(cublas, cublasDestroy_v2);
  H3_FUNCTION(cublas, cublasGetVersion_v2);
  H3_FUNCTION(cublas, cublasSetMathMode);
  H3_FUNCTION(cublas, cublasSetWorkspace_v2);
  GemmEx* cublasGemmEx = cublas.symbol<GemmEx>("cublasGemmEx");
  H3_FUNCTION(lt, cublasLtCreate);
  H3_FUNCTION(lt, cublasLtDestroy);
  H3_FUNCTION(lt, cublasLtGetVersion);
  H3_FUNCTION(lt, cublasLtMatmulDescCreate);
  H3_FUNCTION(lt, cublasLtMatmulDescDestroy);
  H3_FUNCTION(lt, cublasLtMatmulDescSetAttribute);
  H3_FUNCTION(lt, cublasLtMatrixLayoutCreate);
  H3_FUNCTION(lt, cublasLtMatrixLayoutDestroy);
  H3_FUNCTION(lt, cublasLtMatmulPreferenceCreate);
  H3_FUNCTION(lt, cublasLtMatmulPreferenceDestroy);
  H3_FUNCTION(lt, cublasLtMatmulPreferenceSetAttribute);
  H3_FUNCTION(lt, cublasLtMatmulAlgoGetHeuristic);
  H3_FUNCTION(lt, cublasLtMatmul);
#undef H3_FUNCTION

  cublasHandle_t handle = nullptr;
  cublasLtHandle_t lt_handle = nullptr;

  Libraries() {
    check(cublasCreate_v2(&handle), "cublasCreate");
    check(cublasLtCreate(&lt_handle), "cublasLtCreate");
  }
  ~Libraries() {
    cublasDestroy_v2(handle);
    cublasLtDestroy(lt_handle);
  }

  void gemm(const Tensor& x, const Tensor& weight, Tensor& y) const {
    const int n = int(weight.rows()), k = int(weight.cols()), s = int(x.rows());
    const float one = 1, zero = 0;
    check(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, s, k, &one, weight.bytes(), CUDA_R_16BF, k,
                       x.bytes(), CUDA_R_16BF, k, &zero, y.bytes(), CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                       CUBLAS_GEMM_DEFAULT_TENSOR_OP),
          "cublasGemmEx");
  }

  void matmul(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y, Tensor workspace) const {
    const std::int64_t n = weight.rows(), k = weight.cols(), s = x.rows();
    const auto layout = [&](Owned<cublasLtMatrixLayout_t>& owned, std::int64_t rows, std::int64_t cols) {
      owned.destroy = cublasLtMatrixLayoutDestroy;
      check(cublasLtMatrixLayoutCreate(&owned.handle, CUDA_R_16BF, std::uint64_t(rows), std::uint64_t(cols),
                                       rows),
            "cublasLtMatrixLayoutCreate");
    };
    Owned<cublasLtMatmulDesc_t> operation{nullptr, cublasLtMatmulDescDestroy};
    check(cublasLtMatmulDescCreate(&operation.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      check(cublasLtMatmulDescSetAttribute(operation.handle, attribute, &value, sizeof value),
            "cublasLtMatmulDescSetAttribute");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias->bytes());
    }
    Owned<cublasLtMatrixLayout_t> a, b, c;
    layout(a, k, n);
    layout(b, k, s);
    layout(c, n, s);
    Owned<cublasLtMatmulPreference_t> preference{nullptr, cublasLtMatmulPreferenceDestroy};
    check(cublasLtMatmulPreferenceCreate(&preference.handle), "cublasLtMatmulPreferenceCreate");
    const std::size_t bytes = workspace.size_bytes();
    check(cublasLtMatmulPreferenceSetAttribute(preference.handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof bytes),
          "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(lt_handle, operation.handle, a.handle, b.handle, c.handle, c.handle,
                                         preference.handle, 1, &found, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    require(count > 0, "provider: cublasLt has no algorithm for {} x {}", to_string(x.shape()),
            to_string(weight.shape()));
    const float one = 1, zero = 0;
    check(cublasLtMatmul(lt_handle, operation.handle, &one, weight.bytes(), a.handle, x.bytes(), b.handle,
                         &zero, y.bytes(), c.handle, y.bytes(), c.handle, &found.algo, workspace.bytes(),
                         bytes, nullptr),
          "cublasLtMatmul");
  }
};

Products::Products(Variant variant)
    : libraries_(std::make_unique<Libraries>()),
      variant_(variant),
      workspace_(cuda::allocate(DType::fp32, {kWorkspaceBytes / 4})) {
  check(libraries_->cublasSetMathMode(libraries_->handle, CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
  check(libraries_->cublasSetWorkspace_v2(libraries_->handle, workspace_.bytes(), workspace_.size_bytes()),
        "cublasSetWorkspace");
}

Products::~Products() = default;

Tensor Products::linear(const Tensor& x, const Tensor& weight, const Tensor* bias) const {
  constexpr const char* kName = "provider linear";
  cuda::require_tensor(kName, "x", x, DType::bf16, {x.rows(), weight.cols()});
  cuda::require_tensor(kName, "weight", weight, DType::bf16, {weight.rows(), weight.cols()});
  if (bias != nullptr) cuda::require_tensor(kName, "bias", *bias, DType::bf16, {weight.rows()});
  Tensor y = cuda::allocate(DType::bf16, {x.rows(), weight.rows()});
  if (bias == nullptr && variant_ == Variant::standard)
    libraries_->gemm(x, weight, y);
  else
    libraries_->matmul(x, weight, bias, y, workspace_);
  return y;
}

std::string Products::cublas_version() const {
  int version = 0;
  check(libraries_->cublasGetVersion_v2(libraries_->handle, &version), "cublasGetVersion");
  return dotted_version(std::size_t(version));
}

std::string Products::cublaslt_version() const { return dotted_version(libraries_->cublasLtGetVersion()); }

}  // namespace h3::golden::provider
