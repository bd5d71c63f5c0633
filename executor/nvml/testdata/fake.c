// A stand-in for libnvidia-ml.so.1 with two GPUs. The file that FAKE_NVML names says what happens, one word a line:
// "xid GPU NUMBER", "lost GPU", "hang", "crash".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int gpus[2];
static int told = 0;

static int said(const char *what, int gpu, unsigned long long *number) {
  const char *path = getenv("FAKE_NVML");
  FILE *f = path ? fopen(path, "r") : NULL;
  char line[100], word[20];
  int found = 0, at;
  unsigned long long n;
  while (f && fgets(line, sizeof line, f)) {
    int fields = sscanf(line, "%19s %d %llu", word, &at, &n);
    if (fields >= 1 && !strcmp(word, what) && (gpu < 0 || (fields >= 2 && at == gpu))) {
      found = 1;
      if (number && fields == 3) *number = n;
    }
  }
  if (f) fclose(f);
  return found;
}

static int now(void) {
  if (said("crash", -1, NULL)) abort();
  while (said("hang", -1, NULL)) usleep(10000);
  return 0;
}

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return now(); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &gpus[i]; return 0; }
int nvmlDeviceGetName(void *d, char *text, unsigned size) {
  snprintf(text, size, d == &gpus[0] ? "NVIDIA H100 80GB HBM3" : "Tesla T4");
  return 0;
}
int nvmlDeviceGetUUID(void *d, char *text, unsigned size) {
  snprintf(text, size, "GPU-fake-%d", d == &gpus[0] ? 0 : 1);
  return 0;
}
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "some error"; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *info) {
  now();
  info[0] = info[1] = info[2] = 0;
  return said("lost", d == &gpus[0] ? 0 : 1, NULL) ? 15 : 0;
}
#ifndef OLD
int nvmlEventSetCreate(void **set) { *set = &told; return 0; }
int nvmlDeviceRegisterEvents(void *d, unsigned long long kinds, void *set) { return 0; }
struct event { void *device; unsigned long long kind, data; unsigned gi, ci; };
int nvmlEventSetWait_v2(void *set, struct event *e, unsigned ms) {
  for (unsigned i = 0; i < ms; i += 10) {
    for (int gpu = 0; gpu < 2; gpu++) {
      unsigned long long n = 0;
      if (!(told & 1 << gpu) && said("xid", gpu, &n)) {
        told |= 1 << gpu;
        e->device = &gpus[gpu]; e->kind = 8; e->data = n;
        return 0;
      }
    }
    usleep(10000);
  }
  return 10;
}
#endif
