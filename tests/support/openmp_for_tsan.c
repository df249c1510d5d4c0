/* Tells gcc's thread sanitizer what OpenMP orders, which its runtime library (libgomp) is not built to tell.
 *
 * A parallel region begins after everything before it and ends before everything behind it; a barrier orders what
 * the threads of a region do around it. `make race` loads this between a kernel and libgomp.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

struct region {
    void (*body)(void *);
    void *data;
    char begin, barrier, end;  /* Their addresses are what is acquired and released. */
};

static __thread struct region *current;

static void run(void *argument)
{
    struct region *region = argument, *outer = current;
    __tsan_acquire(&region->begin);
    current = region;
    region->body(region->data);
    current = outer;
    __tsan_release(&region->end);
}

void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{
    void (*next)(void (*)(void *), void *, unsigned, unsigned) = dlsym(RTLD_NEXT, "GOMP_parallel");
    struct region region = {.body = body, .data = data};
    __tsan_release(&region.begin);
    next(run, &region, threads, flags);
    __tsan_acquire(&region.end);
}

void GOMP_barrier(void)
{
    void (*next)(void) = dlsym(RTLD_NEXT, "GOMP_barrier");
    __tsan_release(&current->barrier);
    next();
    __tsan_acquire(&current->barrier);
}
