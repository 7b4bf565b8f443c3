/* The call sequence of Listing 5.5 in Jóhannsson, "GPU-Based Markov Decision Process Solver" (2009), with the calls that take the
 * place of the thesis' ones. With a file name, the domain is read from that file; the formats of the thesis' appendix A, text and XML,
 * are among those that warpkov reads. */

#include <stdio.h>
#include <stdlib.h>
#include <warpkov.h>

static void check(wk_status status)
{
    if (status != WK_OK) {
        fprintf(stderr, "%s\n", wk_last_error());
        exit(status);
    }
}

/* InitalizeDomainOnHost(stateCount, actionCount, divergenceCount) and the pointers of getProbabilityAndRewardPointer() and
 * getResultStatesPointer(): the domain is in arrays of the caller. A machine is new, worn or broken; it runs, or it is replaced. */
static wk_mdp *machine(void)
{
    /* Row s*A + a has the successors row_ptr[s*A + a] to before row_ptr[s*A + a + 1]: no padding up to a divergence. */
    static const uint64_t row_ptr[] = {0, 2, 3, 5, 6, 7, 8};
    static const uint32_t next[] = {0, 1, /**/ 0, /**/ 1, 2, /**/ 0, /**/ 2, /**/ 0};
    static const double probability[] = {0.7, 0.3, /**/ 1.0, /**/ 0.6, 0.4, /**/ 1.0, /**/ 1.0, /**/ 1.0};
    /* r(s, a): a new machine earns 10, a worn one 7, a broken one nothing; a replacement costs 20. */
    static const double reward[] = {10.0, -20.0, 7.0, -20.0, 0.0, -20.0};
    wk_mdp_parts parts = {
        .size = sizeof parts,
        .states = 3,
        .actions = 2,
        .gamma = 0.95,
        .transitions = {.rows = 6, .count = 8, .row_ptr = row_ptr, .col = next, .val = probability},
        .action_rewards = reward,
    };
    wk_mdp *domain;
    check(wk_mdp_new(&parts, &domain));
    return domain;
}

/* ANCHOR: main */
int main(int argc, char **argv)
{
    /* InitializeCUDA(): a solve starts the device by itself, so this call only takes its time in advance. */
    const char *device;
    check(wk_start_device("auto", &device));
    fprintf(stderr, "device: %s\n", device);

    /* mdpReader.LoadDomain(DOMAIN_FILE, ..., mdpReader.TEXT) */
    wk_mdp *domain;
    if (argc > 1)
        check(wk_mdp_read(argv[1], NULL, &domain));
    else
        domain = machine();

    /* SetValueIterationConstants(GAMMA, CONVERGENCE_THRESHOLD): gamma belongs to the domain. The error of the values is bounded in
     * place of the change of a sweep, for which there is "theta". */
    wk_options *options;
    check(wk_options_new(&options));
    check(wk_options_set(options, "epsilon", "1e-9"));

    /* InitializeDomainOnGPU(false); SolveDomain(BLOCKVALUE_ITERATION): the solver chooses the device and the method by the domain.
     * "method" names another, such as "block-divided" for the thesis' algorithm on a GPU. */
    wk_mdp_solution *solution;
    check(wk_mdp_solve(domain, options, NULL, NULL, &solution));

    /* printMDPValues(getStateValuesPointer()): and the policy, and the proven bound. */
    size_t count;
    const double *values = wk_mdp_values(solution, &count);
    const uint32_t *policy = wk_mdp_policy(solution, NULL);
    for (size_t state = 0; state < count; state++)
        printf("state %zu: action %u, value %.6f\n", state, (unsigned)policy[state], values[state]);
    printf("no value is off by more than 1e-9: %s\n", wk_mdp_bound(solution) <= 1e-9 ? "proven" : "not proven");

    /* DeInitializeCUDA(): the device belongs to the process, and everything else to its handle. */
    wk_mdp_solution_free(solution);
    wk_options_free(options);
    wk_mdp_free(domain);
    return 0;
}
/* ANCHOR_END: main */
