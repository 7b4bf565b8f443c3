/* The tiger of Kaelbling, Littman and Cassandra (1998): bounds of its value, a walk by the policy, and the value if listening is limited.
 * A tiger is behind one of two doors; listening reveals its door with probability 0.85. */

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

static const char *const ACTIONS[] = {"listen", "open the left door", "open the right door"};

int main(void)
{
    /* T(s, a, s'), rows by state, then action: an opened door places the tiger anew. Dense matrices have values alone. */
    static const double next[] = {1.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.0, 1.0, 0.5, 0.5, 0.5, 0.5};
    /* O(a, s', o), rows by action, then next state. */
    static const double heard[] = {0.85, 0.15, 0.15, 0.85, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    static const double reward[] = {-1.0, -100.0, 10.0, -1.0, 10.0, -100.0};
    wk_pomdp_parts parts = {
        .size = sizeof parts,
        .states = 2,
        .actions = 3,
        .observations = 2,
        .gamma = 0.95,
        .transitions = {.rows = 6, .count = 12, .val = next},
        .emissions = {.rows = 6, .count = 12, .val = heard},
        .action_rewards = reward,
    };
    wk_pomdp *tiger;
    check(wk_pomdp_new(&parts, &tiger));

    wk_pomdp_solution *solution;
    check(wk_pomdp_solve(tiger, NULL, NULL, NULL, &solution));
    printf("the value at the start is between %.2f and %.2f\n", wk_pomdp_lower(solution), wk_pomdp_upper(solution));

    /* The tiger is heard on the left, until the policy opens a door. */
    double belief[2];
    check(wk_pomdp_start(tiger, belief, 2));
    for (int step = 1; step <= 10; step++) {
        uint32_t action;
        check(wk_pomdp_action(solution, belief, 2, &action, NULL));
        printf("step %d: left with %.4f, %s\n", step, belief[0], ACTIONS[action]);
        if (action != 0)
            break;
        check(wk_pomdp_update(tiger, belief, action, 0, belief, 2));
    }

    /* The best mixture of controllers that listens at most 13 times, of the 20 times that 0.95 counts all steps. */
    static const double listens[] = {1.0, 0.0, 0.0, 1.0, 0.0, 0.0};
    wk_options *options;
    check(wk_options_new(&options));
    check(wk_options_set(options, "at_most", "13"));
    check(wk_options_set(options, "gap", "0.1"));
    wk_pomdp_controller *controller;
    check(wk_pomdp_constrain(tiger, listens, 6, options, NULL, NULL, &controller));
    size_t count;
    const double *probabilities = wk_pomdp_controller_probabilities(controller, &count);
    printf("with at most 13 times it is between %.1f and %.1f\n", wk_pomdp_controller_lower(controller),
           wk_pomdp_controller_upper(controller));
    for (size_t part = 0; part < count; part++)
        printf("part %zu of the policy: probability %.2f\n", part, probabilities[part]);

    wk_pomdp_controller_free(controller);
    wk_options_free(options);
    wk_pomdp_solution_free(solution);
    wk_pomdp_free(tiger);
    return 0;
}
