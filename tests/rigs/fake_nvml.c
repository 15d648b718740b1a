/* A libnvidia-ml.so.1 for tests: no machine here has a GPU. Environment variables say what it does.
 *
 *   FAKE_NVML_INIT=code      nvmlInit_v2 fails with this nvmlReturn_t
 *   FAKE_NVML_HANG=fifo      nvmlInit_v2 opens this pipe, and hangs in the kernel until somebody writes
 *   FAKE_NVML_CRASH=1        nvmlInit_v2 aborts
 *   FAKE_NVML_COUNT=n        so many GPUs, at 0000:1b:00.0, 0000:1c:00.0, ... (2)
 *   FAKE_NVML_LOST=i         this one gives no handle (NVML_ERROR_GPU_IS_LOST)
 *   FAKE_NVML_SICK=i         the next variables are about this one
 *   FAKE_NVML_PENDING, _FAILED (rows), _PAGES, _ECC, _SLOWED (bits), _MIG (devices), _FABRIC (status; -1: in progress),
 *   _CODE (nvmlReturn_t of its address)
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} Pci;
typedef struct {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
} Fabric;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 0) : otherwise;
}
static int of(void *handle, const char *name) {
    return (long)handle - 1 == number("FAKE_NVML_SICK", 0) ? number(name, 0) : 0;
}

int nvmlInit_v2(void) {
    const char *fifo = getenv("FAKE_NVML_HANG");
    if (fifo) open(fifo, O_RDONLY);
    if (number("FAKE_NVML_CRASH", 0)) abort();
    return number("FAKE_NVML_INIT", 0);
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
    return code == 15 ? "GPU is lost" : code == 16 ? "GPU requires reset" : code == 18 ? "Driver/library version mismatch"
                                                                                       : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "550.54.15");
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = number("FAKE_NVML_COUNT", 2);
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if ((int)index == number("FAKE_NVML_LOST", -1)) return 15;
    *handle = (void *)(long)(index + 1);
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *handle, Pci *pci) {
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x1a + (unsigned)(long)handle);
    return of(handle, "FAKE_NVML_CODE");
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
    snprintf(text, size, "GPU-00000000-0000-0000-0000-%012ld", (long)handle);
    return 0;
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = 0;
    *pending = of(handle, "FAKE_NVML_PENDING");
    *failed = of(handle, "FAKE_NVML_FAILED");
    return 0;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *handle, int *pending) {
    *pending = of(handle, "FAKE_NVML_PAGES");
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *count) {
    *count = type == 1 && counter == 0 ? of(handle, "FAKE_NVML_ECC") : 99;
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    *reasons = of(handle, "FAKE_NVML_SLOWED");
    return 0;
}
int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    *pending = *current = of(handle, "FAKE_NVML_MIG") > 0;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    (void)handle;
    *count = 7;
    return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **mig) {
    *mig = handle;
    return (int)index < of(handle, "FAKE_NVML_MIG") ? 0 : 6;
}
int nvmlDeviceGetGpuFabricInfo(void *handle, Fabric *fabric) {
    fabric->status = of(handle, "FAKE_NVML_FABRIC");
    fabric->state = fabric->status == 0 ? 0 : fabric->status == -1 ? 2 : 3;
    return 0;
}
