/* Starts the CUDA driver and makes a context on the first GPU: the start-up time of every CUDA program.
 * Needs no CUDA headers: cc -O2 context.c -o context /usr/lib/x86_64-linux-gnu/libcuda.so.1 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>

int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

int main(void) {
    int device;
    void *context;
    double start = now(), ready;
    int code = cuInit(0);
    ready = now();
    if (!code) code = cuDeviceGet(&device, 0);
    if (!code) code = cuDevicePrimaryCtxRetain(&context, device);
    if (!code) code = cuCtxSetCurrent(context);
    if (code) {
        fprintf(stderr, "the driver says %d\n", code);
        return 1;
    }
    printf("cuInit %.1f ms, context %.1f ms\n", ready - start, now() - ready);
    return 0;
}
