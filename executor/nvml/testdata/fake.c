// A stand-in for libnvidia-ml.so.1 with two GPUs. The file that FAKE_NVML names says what happens, one word a line:
// "xid GPU NUMBER", "lost GPU", "hot GPU", "ecc GPU NUMBER", "rows GPU", "hang", "crash". With -DMIG the first GPU
// has two instances, with -DEMPTY none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int gpus[2], instances[2];
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
  int instance = d == &instances[0] || d == &instances[1];
  snprintf(text, size, instance ? "NVIDIA H100 80GB HBM3 MIG 1g.10gb" : d == &gpus[0] ? "NVIDIA H100 80GB HBM3" : "Tesla T4");
  return 0;
}
int nvmlDeviceGetUUID(void *d, char *text, unsigned size) {
  if (d == &instances[0] || d == &instances[1])
    snprintf(text, size, "MIG-fake-%d", d == &instances[1]);
  else
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
static int at(void *d) { return d == &gpus[0] ? 0 : 1; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *reasons) {
  *reasons = said("hot", at(d), NULL) ? 0x40 | 0x8 : 0x4;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int since, unsigned long long *n) {
  if (kind != 1 || since != 0) abort();
  *n = 3;
  said("ecc", at(d), n);
  return at(d) ? 0 : 3; // the first GPU does not count them
}
int nvmlDeviceGetRemappedRows(void *d, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) {
  *c = *u = *pending = 0;
  *failed = said("rows", at(d), NULL);
  return 0;
}
#ifdef MIG
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *later) { *now = *later = at(d) == 0; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **instance) {
#ifdef EMPTY
  return 6;
#endif
  if (i != 0 && i != 3) return 6;
  *instance = &instances[i != 0];
  return 0;
}
#endif
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
