/* The ice-cream diary of Eisner (2002): from the ice creams of each day to the weather. Scores, decodes and trains a model. */

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

enum { DAYS = 32 };

int main(void)
{
    static const double start[] = {0.5, 0.5};
    /* P(j|i), rows by state i: hot, cold. */
    static const double transitions[] = {0.8, 0.2, 0.1, 0.9};
    /* P(o|j) of one, two and three ice creams, rows by state j. */
    static const double emissions[] = {0.1, 0.2, 0.7, 0.7, 0.2, 0.1};
    static const uint32_t diary[DAYS] = {1, 2, 2, 1, 2, 1, 2, 1, 1, 2, 0, 2, 0, 0, 0, 1,
                                         0, 0, 0, 2, 0, 1, 0, 0, 0, 1, 2, 2, 1, 2, 1, 1};
    static const uint64_t offsets[] = {0, DAYS};
    wk_hmm_parts parts = {
        .size = sizeof parts,
        .states = 2,
        .symbols = 3,
        .start = start,
        .transitions = transitions,
        .emissions = emissions,
    };
    wk_hmm *weather;
    wk_sequences *days;
    check(wk_hmm_new(&parts, &weather));
    check(wk_sequences_of_symbols(offsets, 1, diary, DAYS, &days));

    double log;
    uint32_t path[DAYS];
    check(wk_hmm_score(weather, days, NULL, &log, 1));
    check(wk_hmm_decode(weather, days, NULL, path, DAYS, NULL, 0));
    printf("ln P(O) = %.6f\n", log);
    for (int day = 0; day < DAYS; day++)
        putchar(path[day] == 0 ? 'H' : 'C');
    putchar('\n');

    wk_training *training;
    check(wk_hmm_train(weather, days, NULL, NULL, NULL, &training));
    size_t count;
    const double *logs = wk_training_log_likelihoods(training, &count);
    printf("ln P(O) = %.6f after %zu iterations\n", logs[count - 1], count - 1);
    wk_hmm *trained;
    check(wk_training_model(training, &trained));
    const double *rows = wk_hmm_transitions(trained, NULL);
    printf("a hot day follows a hot one with %.4f\n", rows[0]);

    wk_hmm_free(trained);
    wk_training_free(training);
    wk_sequences_free(days);
    wk_hmm_free(weather);
    return 0;
}
