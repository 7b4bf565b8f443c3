// C++: handles that free themselves, errors as exceptions, progress, and two ways to stop a run.

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <warpkov.h>

namespace wk {

// ANCHOR: handles
template <typename T, void (*Free)(T *)>
struct Freed {
    void operator()(T *handle) const { Free(handle); }
};

template <typename T, void (*Free)(T *)>
using Handle = std::unique_ptr<T, Freed<T, Free>>;

using Mdp = Handle<wk_mdp, wk_mdp_free>;
using Options = Handle<wk_options, wk_options_free>;
using Solution = Handle<wk_mdp_solution, wk_mdp_solution_free>;

struct Error : std::runtime_error {
    explicit Error(wk_status status) : std::runtime_error(wk_last_error()), status(status) {}
    wk_status status;
};

inline void check(wk_status status)
{
    if (status != WK_OK)
        throw Error(status);
}
// ANCHOR_END: handles

inline Mdp generate(const std::string &family)
{
    wk_mdp *mdp;
    check(wk_mdp_generate(family.c_str(), &mdp));
    return Mdp(mdp);
}

inline Options options(const std::vector<std::pair<const char *, const char *>> &given)
{
    wk_options *raw;
    check(wk_options_new(&raw));
    Options made(raw);
    for (const auto &option : given)
        check(wk_options_set(made.get(), option.first, option.second));
    return made;
}

} // namespace wk

// ANCHOR: callback
// Counts rounds, and stops after the third. A callback must not throw.
static int three_rounds(void *user, const wk_progress *progress)
{
    int *rounds = static_cast<int *>(user);
    return progress->residual == 0.0 || ++*rounds == 3;
}
// ANCHOR_END: callback

int main()
{
    try {
        const wk::Mdp grid = wk::generate("grid --width 12 --height 12 --gamma 0.99");
        const wk::Options options = wk::options({{"method", "krylov"}, {"epsilon", "1e-8"}, {"device", "cpu"}});

        // Threads share models and options.
        std::vector<double> bounds(2);
        std::vector<std::thread> threads;
        for (double &bound : bounds) {
            threads.emplace_back([&grid, &options, &bound] {
                wk_mdp_solution *raw;
                if (wk_mdp_solve(grid.get(), options.get(), nullptr, nullptr, &raw) == WK_OK)
                    bound = wk_mdp_bound(raw);
                wk_mdp_solution_free(raw);
            });
        }
        for (std::thread &thread : threads)
            thread.join();
        std::printf("%s\n", bounds[0] > 0.0 && bounds[0] <= 1e-8 && bounds[0] == bounds[1] ? "both proven" : "different");

        // A callback stops one run, which keeps what it has.
        wk_mdp_solution *raw;
        int rounds = 0;
        wk_status status = wk_mdp_solve(grid.get(), options.get(), three_rounds, &rounds, &raw);
        const wk::Solution partial(raw);
        std::printf("%d rounds, status %d, %s\n", rounds, status, wk_mdp_ended(partial.get()));

        // What a signal handler may call stops all runs, until it is cleared.
        wk_interrupt();
        status = wk_mdp_solve(grid.get(), options.get(), nullptr, nullptr, &raw);
        wk_mdp_solution_free(raw);
        wk_interrupt_clear();
        std::printf("interrupted: status %d\n", status);

        wk::options({{"metod", "values"}});
    } catch (const wk::Error &error) {
        const std::string text = error.what();
        std::printf("status %d: %s\n", error.status, text.substr(0, text.find(',')).c_str());
        return 0;
    }
    return 1;
}
