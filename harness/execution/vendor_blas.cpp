#ifdef H3_HAVE_CUDA
#include "harness/execution/vendor_blas.h"

#ifdef H3_HAVE_PROVIDER
#include <cublasLt.h>
#include <cublas_v2.h>

#include "golden/provider/library.h"
#include "kernels/cuda/device.h"

namespace h3 {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t(32) << 20;  // what the vendor recommends for Hopper

void check_blas(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, "{}: cuBLAS status {}", what, int(status));
}

using golden::provider::Library;

#define H3_TEXT_OF(number) #number
#define H3_LIBRARY(name, major) name ".so." H3_TEXT_OF(major)  // the version whose headers were compiled

template <class Function>
void bind(Function*& function, const Library& library, const char* symbol) {
  function = library.symbol<Function>(symbol);
}

// Spelled out, because C++ sees two of this name.
using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                              const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                              cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type,
                              int ldc, cublasComputeType_t, cublasGemmAlgo_t);

// The functions used.
struct Blas {
  decltype(cublasCreate_v2)* create;
  decltype(cublasDestroy_v2)* destroy;
  decltype(cublasGetVersion_v2)* get_version;
  decltype(cublasSetStream_v2)* set_stream;
  GemmEx* gemm;

  Blas() {
    const Library library(H3_LIBRARY("libcublas", CUBLAS_VER_MAJOR));
    bind(create, library, "cublasCreate_v2");
    bind(destroy, library, "cublasDestroy_v2");
    bind(get_version, library, "cublasGetVersion_v2");
    bind(set_stream, library, "cublasSetStream_v2");
    bind(gemm, library, "cublasGemmEx");
  }
};

struct BlasLt {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtDestroy)* destroy;
  decltype(cublasLtMatmulDescCreate)* create_operation;
  decltype(cublasLtMatmulDescDestroy)* destroy_operation;
  decltype(cublasLtMatmulDescSetAttribute)* set_operation;
  decltype(cublasLtMatrixLayoutCreate)* create_layout;
  decltype(cublasLtMatrixLayoutDestroy)* destroy_layout;
  decltype(cublasLtMatmulPreferenceCreate)* create_preference;
  decltype(cublasLtMatmulPreferenceDestroy)* destroy_preference;
  decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference;
  decltype(cublasLtMatmulAlgoGetHeuristic)* propose;
  decltype(cublasLtMatmulAlgoConfigGetAttribute)* get_config;
  decltype(cublasLtMatmul)* multiply;

  BlasLt() {
    const Library library(H3_LIBRARY("libcublasLt", CUBLAS_VER_MAJOR));
    bind(create, library, "cublasLtCreate");
    bind(destroy, library, "cublasLtDestroy");
    bind(create_operation, library, "cublasLtMatmulDescCreate");
    bind(destroy_operation, library, "cublasLtMatmulDescDestroy");
    bind(set_operation, library, "cublasLtMatmulDescSetAttribute");
    bind(create_layout, library, "cublasLtMatrixLayoutCreate");
    bind(destroy_layout, library, "cublasLtMatrixLayoutDestroy");
    bind(create_preference, library, "cublasLtMatmulPreferenceCreate");
    bind(destroy_preference, library, "cublasLtMatmulPreferenceDestroy");
    bind(set_preference, library, "cublasLtMatmulPreferenceSetAttribute");
    bind(propose, library, "cublasLtMatmulAlgoGetHeuristic");
    bind(get_config, library, "cublasLtMatmulAlgoConfigGetAttribute");
    bind(multiply, library, "cublasLtMatmul");
  }
};

constexpr float kOne = 1, kZero = 0;

// A row-major matrix is its transpose in the vendor's column-major words: y^T (N,S) = weight (N,K) x^T (K,S).
struct Extents {
  std::int64_t outputs, rows, depth;
};

// A product planned once by cuBLASLt.
class Plan {
 public:
  Plan(const BlasLt& lt, cublasLtHandle_t handle, const Extents& of) : lt_(lt), handle_(handle) {
    check_blas(lt.create_operation(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    set_operation(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    set_operation(CUBLASLT_MATMUL_DESC_TRANSB, plain);
    weight_ = layout(of.depth, of.outputs);
    x_ = layout(of.depth, of.rows);
    y_ = layout(of.outputs, of.rows);

    cublasLtMatmulPreference_t preference = nullptr;
    check_blas(lt.create_preference(&preference), "asking for a plan");
    const std::uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      check_blas(lt.set_preference(preference, what, &value, sizeof(value)), "asking for a plan");
    };
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_reduction);
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    cublasLtMatmulHeuristicResult_t proposed[16];
    int count = 0;
    const cublasStatus_t status = lt.propose(handle, operation_, weight_, x_, y_, y_, preference,
                                             int(std::size(proposed)), proposed, &count);
    lt.destroy_preference(preference);
    if (status != CUBLAS_STATUS_SUCCESS) count = 0;
    for (int i = 0; i < count && !found_; ++i) {
      if (proposed[i].state != CUBLAS_STATUS_SUCCESS || parts_of(proposed[i].algo) > 1) continue;
      algorithm_ = proposed[i].algo;
      found_ = true;
    }
  }
  ~Plan() {
    for (const auto layout : {weight_, x_, y_}) lt_.destroy_layout(layout);
    lt_.destroy_operation(operation_);
  }
  Plan(const Plan&) = delete;

  bool found() const { return found_; }
  void launch(const Tensor& x, const Tensor& weight, Tensor& y, Tensor& workspace, Stream stream) const {
    check_blas(
        lt_.multiply(handle_, operation_, &kOne, weight.bytes(), weight_, x.bytes(), x_, &kZero, y.bytes(),
                     y_, y.bytes(), y_, &algorithm_, workspace.bytes(), workspace.size_bytes(), stream),
        "cublasLtMatmul");
  }

 private:
  void set_operation(cublasLtMatmulDescAttributes_t what, cublasOperation_t value) {
    check_blas(lt_.set_operation(operation_, what, &value, sizeof(value)), "describing a product");
  }
  cublasLtMatrixLayout_t layout(std::int64_t rows, std::int64_t cols) {
    cublasLtMatrixLayout_t made = nullptr;
    check_blas(lt_.create_layout(&made, CUDA_R_16BF, std::uint64_t(rows), std::uint64_t(cols), rows),
               "describing a matrix");
    return made;
  }
  std::int32_t parts_of(const cublasLtMatmulAlgo_t& algorithm) const {
    std::int32_t parts = 0;
    std::size_t written = 0;
    check_blas(lt_.get_config(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof(parts), &written),
               "reading a plan");
    return parts;
  }

  const BlasLt& lt_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t weight_ = nullptr, x_ = nullptr, y_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  bool found_ = false;
};

class LoadedBlas : public VendorBlas {
 public:
  LoadedBlas() : workspace_(cuda::allocate(DType::bf16, {std::int64_t(kWorkspaceBytes / 2)})) {
    check_blas(blas_.create(&handle_), "cublasCreate");
    check_blas(lt_.create(&lt_handle_), "cublasLtCreate");
  }
  ~LoadedBlas() override {
    if (lt_handle_) lt_.destroy(lt_handle_);
    if (handle_) blas_.destroy(handle_);
  }

  std::string version() const override {
    int version = 0;
    check_blas(blas_.get_version(handle_, &version), "cublasGetVersion");
    return "cuBLAS " + golden::provider::dotted_version(std::size_t(version));
  }

  std::vector<Product> products(const Tensor& x, const Tensor& weight, Tensor& y) override {
    const Extents of{weight.rows(), x.rows(), x.cols()};
    std::vector<Product> made;
    made.push_back({"cuBLAS", [this, of, x, weight, y](Stream stream) mutable {
                      check_blas(blas_.set_stream(handle_, stream), "cublasSetStream");
                      check_blas(
                          blas_.gemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, int(of.outputs), int(of.rows),
                                     int(of.depth), &kOne, weight.bytes(), CUDA_R_16BF, int(of.depth),
                                     x.bytes(), CUDA_R_16BF, int(of.depth), &kZero, y.bytes(), CUDA_R_16BF,
                                     int(of.outputs), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                          "cublasGemmEx");
                    }});
    const auto plan = std::make_shared<Plan>(lt_, lt_handle_, of);
    if (plan->found())
      made.push_back({"cuBLASLt, no split K", [this, plan, x, weight, y](Stream stream) mutable {
                        plan->launch(x, weight, y, workspace_, stream);
                      }});
    return made;
  }

 private:
  Blas blas_;
  BlasLt lt_;
  cublasHandle_t handle_ = nullptr;
  cublasLtHandle_t lt_handle_ = nullptr;
  Tensor workspace_;
};

}  // namespace

std::unique_ptr<VendorBlas> load_vendor_blas(std::string& why_not) {
  try {
    return std::make_unique<LoadedBlas>();
  } catch (const Error& error) {
    why_not = error.what();
    return nullptr;
  }
}

}  // namespace h3

#else

namespace h3 {

std::unique_ptr<VendorBlas> load_vendor_blas(std::string& why_not) {
  why_not = "this build found no cuBLAS";
  return nullptr;
}

}  // namespace h3

#endif
#endif
