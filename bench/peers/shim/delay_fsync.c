/* Makes every sync of a file take longer, as on a disk without a cache that
 * answers for it: preloaded into a child process, for all engines alike.
 *
 *   cc -shared -fPIC -O2 -o delay_fsync.so delay_fsync.c -ldl
 *   FSYNC_DELAY_US=2000 LD_PRELOAD=./delay_fsync.so COMMAND
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

typedef int sync_fn(int);

static void delay(void) {
    const char *text = getenv("FSYNC_DELAY_US");
    long us = text ? strtol(text, NULL, 10) : 0;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (us > 0 && nanosleep(&left, &left) == -1 && errno == EINTR) {
    }
}

static int delayed(const char *name, int fd) {
    sync_fn *real = (sync_fn *)dlsym(RTLD_NEXT, name);
    int result = real(fd);
    int error = errno;
    delay();
    errno = error;
    return result;
}

int fsync(int fd) { return delayed("fsync", fd); }
int fdatasync(int fd) { return delayed("fdatasync", fd); }
