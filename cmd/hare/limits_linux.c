// Limits of this process (ulimit) under which Go's runtime would end with hundreds of lines,
// most of them before main. So they are checked here, before the runtime starts, and refused
// with one line. The numbers were measured, with room above the edge.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define MIB (1ull << 20)

// The exit code of a fault of the machine; main.go has the others.
enum { exit_machine = 3 };

// need ends the process where a limit is lower than what Hare needs of it.
static void need(int resource, unsigned long long least, unsigned long long unit, const char *what, const char *flag) {
	struct rlimit r;
	if (getrlimit(resource, &r) != 0 || r.rlim_cur == RLIM_INFINITY)
		return;
	if (resource == RLIMIT_NOFILE)
		r.rlim_cur = r.rlim_max; // Go raises this limit by itself
	if (r.rlim_cur >= least)
		return;
	fprintf(stderr, "hare: the limit on %s is %llu%s, and hare needs %llu%s: raise it with ulimit %s %llu, or at "
		"whatever started this process\n", what, (unsigned long long)r.rlim_cur / unit, unit == MIB ? " MiB" : "",
		least / unit, unit == MIB ? " MiB" : "", flag, unit == MIB ? least >> 10 : least);
	_exit(exit_machine);
}

static void *wait_for_all(void *all) {
	sem_wait(all);
	return NULL;
}

// need_threads ends the process where so many threads cannot be there at once, because of a
// limit on the processes of the user (ulimit -u) or of a container.
static void need_threads(int count) {
	pthread_t threads[64];
	sem_t all;
	int n = 0, err = 0;
	if (count > 64)
		count = 64;
	sem_init(&all, 0, 0);
	while (n < count && (err = pthread_create(&threads[n], NULL, wait_for_all, &all)) == 0)
		n++;
	for (int i = 0; i < n; i++)
		sem_post(&all);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	if (err == 0)
		return;
	fprintf(stderr, "hare: only %d of %d threads can be started (%s): raise ulimit -u or the limit on processes of the "
		"container\n", n, count, strerror(err));
	_exit(exit_machine);
}

__attribute__((constructor)) static void check_limits(void) {
	struct rlimit r;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (cores < 1)
		cores = 1;
	need(RLIMIT_AS, 2048 * MIB, MIB, "address space", "-v");
	need(RLIMIT_DATA, (256 + 8 * (unsigned long long)cores) * MIB, MIB, "data", "-d");
	need(RLIMIT_NOFILE, 16, 1, "open files", "-n");
#ifdef __GLIBC__
	// Each thread would reserve up to 128 MiB for its own malloc.
	if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY)
		mallopt(M_ARENA_MAX, 1);
#endif
	// A process of root is under no such limit as a rule, but its container may be.
	need_threads(10 + (int)(cores < 32 ? cores : 32));
}
