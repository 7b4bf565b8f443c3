// What constant memory would bring: the same reads through constant memory, a kernel parameter, read-only global memory, and shared
// memory. Build and run: nvcc -O3 -gencode=arch=compute_90,code=sm_90 constant.cu -o constant && ./constant
//
// `uniform`: all lanes of a warp read the same element, as for coefficients: a polynomial of degree 63 of each of 2^24 numbers.
// `random`: each lane reads another element of a table of 4096 numbers, as for rows of a matrix by symbol: 64 reads a thread.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int TERMS = 64, TABLE = 4096, COUNT = 1 << 24, THREADS = 256, RUNS = 21;

struct Terms {
    float a[TERMS];
};

__constant__ Terms constant_terms;
__constant__ float constant_table[TABLE];

enum From { CONSTANT, PARAMETER, GLOBAL, SHARED };

template <From FROM>
__global__ void uniform(const float *__restrict__ x, float *__restrict__ y, const float *__restrict__ terms,
                        const __grid_constant__ Terms parameter) {
    __shared__ float own[TERMS];
    if (FROM == SHARED) {
        if (threadIdx.x < TERMS) own[threadIdx.x] = terms[threadIdx.x];
        __syncthreads();
    }
    int i = blockIdx.x * THREADS + threadIdx.x;
    float at = x[i], sum = 0;
#pragma unroll
    for (int k = 0; k < TERMS; k++) {
        float a = FROM == CONSTANT ? constant_terms.a[k] : FROM == PARAMETER ? parameter.a[k] : FROM == GLOBAL ? terms[k] : own[k];
        sum = fmaf(sum, at, a);
    }
    y[i] = sum;
}

template <From FROM>
__global__ void random(const float *__restrict__ x, float *__restrict__ y, const float *__restrict__ table, const Terms) {
    __shared__ float own[TABLE];
    if (FROM == SHARED) {
        for (int i = threadIdx.x; i < TABLE; i += THREADS) own[i] = table[i];
        __syncthreads();
    }
    int i = blockIdx.x * THREADS + threadIdx.x;
    unsigned state = i * 2654435761u + 1;
    float sum = x[i];
    for (int k = 0; k < 64; k++) {
        state = state * 1664525u + 1013904223u;
        unsigned at = state >> 20;
        sum += FROM == CONSTANT ? constant_table[at] : FROM == GLOBAL ? table[at] : own[at];
    }
    y[i] = sum;
}

void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

template <class Kernel>
void measure(const char *name, const char *from, Kernel kernel, const float *x, float *y, const float *table, const Terms &terms) {
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    std::vector<float> times;
    for (int run = 0; run < RUNS; run++) {
        check(cudaEventRecord(begin));
        kernel<<<COUNT / THREADS, THREADS>>>(x, y, table, terms);
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        float milliseconds;
        check(cudaEventElapsedTime(&milliseconds, begin, end));
        times.push_back(milliseconds);
    }
    std::sort(times.begin(), times.end());
    std::vector<float> found(COUNT);
    check(cudaMemcpy(found.data(), y, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (float value : found) sum += value;
    printf("%-8s %-10s %8.3f ms (%.3f to %.3f)  sum %.9g\n", name, from, times[RUNS / 2], times[0], times[RUNS - 1], sum);
}

int main() {
    cudaDeviceProp device;
    check(cudaGetDeviceProperties(&device, 0));
    printf("%s\n", device.name);
    std::vector<float> x(COUNT), table(TABLE);
    Terms terms;
    for (int i = 0; i < COUNT; i++) x[i] = float(i % 1000) / 1000;
    for (int k = 0; k < TABLE; k++) table[k] = 1.0f / (k + 1);
    for (int k = 0; k < TERMS; k++) terms.a[k] = table[k];
    float *on_device, *y, *table_on_device;
    check(cudaMalloc(&on_device, COUNT * sizeof(float)));
    check(cudaMalloc(&y, COUNT * sizeof(float)));
    check(cudaMalloc(&table_on_device, TABLE * sizeof(float)));
    check(cudaMemcpy(on_device, x.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
    check(cudaMemcpy(table_on_device, table.data(), TABLE * sizeof(float), cudaMemcpyHostToDevice));
    check(cudaMemcpyToSymbol(constant_terms, &terms, sizeof terms));
    check(cudaMemcpyToSymbol(constant_table, table.data(), TABLE * sizeof(float)));
    for (int round = 0; round < 2; round++) {
        measure("uniform", "constant", uniform<CONSTANT>, on_device, y, table_on_device, terms);
        measure("uniform", "parameter", uniform<PARAMETER>, on_device, y, table_on_device, terms);
        measure("uniform", "global", uniform<GLOBAL>, on_device, y, table_on_device, terms);
        measure("uniform", "shared", uniform<SHARED>, on_device, y, table_on_device, terms);
        measure("random", "constant", random<CONSTANT>, on_device, y, table_on_device, terms);
        measure("random", "global", random<GLOBAL>, on_device, y, table_on_device, terms);
        measure("random", "shared", random<SHARED>, on_device, y, table_on_device, terms);
    }
}
