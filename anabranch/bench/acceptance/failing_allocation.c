/* Allocations that fail, in a process that loads this library with LD_PRELOAD.
 *
 * The file that the variable FAILING_ALLOCATION names is mapped as a `control`. Another process
 * writes into it (see failing_allocation.py), and reads how many calls have failed. The library
 * passes all calls on to glibc until `kinds` is set. Calls of glibc itself for its heap are not
 * seen: only the program and its libraries meet failures.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MALLOC = 1, CALLOC = 2, REALLOC = 4, MMAP = 8 };
enum { MAIN_THREAD = 1, OTHER_THREADS = 2 };

struct control {
    _Atomic int64_t kinds;     /* The kinds of calls that count; 0: none, and nothing fails. */
    _Atomic int64_t threads;   /* The threads whose calls count. */
    _Atomic int64_t bytes_min; /* Smaller allocations do not count. */
    _Atomic int64_t calls;     /* Calls that are still to succeed before the first failure. */
    _Atomic int64_t failures;  /* Calls that are still to fail after those. */
    _Atomic int64_t failed;    /* Calls that have failed. */
};

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static struct control *control;

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("FAILING_ALLOCATION");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = (void *)syscall(
        SYS_mmap, NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        control = mapped;
}

static int fails(int kind, size_t bytes)
{
    if (control == NULL || !(atomic_load_explicit(&control->kinds, memory_order_relaxed) & kind))
        return 0;
    int thread = syscall(SYS_gettid) == getpid() ? MAIN_THREAD : OTHER_THREADS;
    if (!(control->threads & thread) || (int64_t)bytes < control->bytes_min)
        return 0;
    if (atomic_fetch_sub(&control->calls, 1) > 0)
        return 0;
    if (atomic_fetch_sub(&control->failures, 1) <= 0)
        return 0;
    atomic_fetch_add(&control->failed, 1);
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return fails(MALLOC, bytes) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails(CALLOC, count * bytes) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *former, size_t bytes)
{
    return fails(REALLOC, bytes) ? NULL : __libc_realloc(former, bytes);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (fails(MMAP, bytes))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return mmap(address, bytes, protection, flags, file, offset);
}
