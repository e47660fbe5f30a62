// Threads of the OpenMP library that torch has loaded, called directly: any compiler will do, and
// no second pool of threads competes with torch's.
#pragma once

#include <atomic>

extern "C" void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags);

// Calls `task(i)` for i in [0, count) on up to `threads` threads, the next free one taking the next i.
// What a task computes must not depend on the thread that runs it.
template <class Task> void parallel_for(long count, int threads, const Task &task) {
    if (threads <= 1 || count <= 1) {
        for (long i = 0; i < count; i++) task(i);
        return;
    }
    struct Shared {
        const Task &task;
        const long count;
        std::atomic<long> next;
    } shared{task, count, {0}};
    auto work = [](void *data) {
        Shared &all = *static_cast<Shared *>(data);
        for (long i; (i = all.next.fetch_add(1, std::memory_order_relaxed)) < all.count;) all.task(i);
    };
    GOMP_parallel(work, &shared, count < threads ? count : threads, 0);
}
