// The functions of cuDNN that Weft calls, from a cuDNN without engines: our own attention runs.
#include <cudnn.h>

#include <cstddef>
#include <cstdint>

struct cudnnContext {};

extern "C" {

std::size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "not supported by the emulated cuDNN";
}
void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (size > 0) *text = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t /*handle*/, cudaStream_t /*stream*/) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t /*type*/,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = nullptr;
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t /*descriptor*/) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t /*descriptor*/, cudnnBackendAttributeName_t /*name*/,
                                       cudnnBackendAttributeType_t /*type*/, int64_t /*count*/,
                                       const void* /*values*/) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t /*descriptor*/, cudnnBackendAttributeName_t /*name*/,
                                       cudnnBackendAttributeType_t /*type*/, int64_t /*most*/, int64_t* /*count*/,
                                       void* /*values*/) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t /*descriptor*/) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t /*handle*/, cudnnBackendDescriptor_t /*plan*/,
                                  cudnnBackendDescriptor_t /*pack*/) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // extern "C"
