/* warpkov: Markov models solved on NVIDIA GPUs and on CPUs.
 *
 * Made by cbindgen from host/capi: change the documentation there.
 *
 * Errors. A function that can fail returns a wk_status, and wk_last_error() has the text, of the same thread. No function
 * ends the process, and no exception leaves one.
 *
 * Pointers. A pointer argument that is not an output points at memory of its type, with as many elements as the
 * documentation says, for as long as the call lasts: arrays are copied. NULL, wrong counts and numbers out of range are
 * errors. What a documentation allows to be NULL may be left out. Texts end with 0 and are UTF-8.
 *
 * Ownership. A handle that a function puts into its last argument belongs to the caller, who frees it once, by the
 * function whose name ends in _free. If the function fails, that argument is NULL. Arrays and texts that a function
 * returns belong to the handle, and stay until it is freed.
 *
 * Threads. All functions may be called from any thread at any time. Models and sequences do not change, and threads may
 * share them, with solutions and options too while nobody changes or frees them. A run uses all cores, or the GPU. After
 * fork(), the child of a process that has called the library cannot use it.
 */

#ifndef WARPKOV_H
#define WARPKOV_H

#include <stddef.h>
#include <stdint.h>

/**
 * How a call ended. The numbers are the exit codes of the command `warpkov`.
 */
typedef enum {
    /**
     * Done, or solved.
     */
    WK_OK = 0,
    /**
     * A limit came before the accuracy that was asked for: there is a solution, with the bounds that hold. Without a solution,
     * the computation failed.
     */
    WK_NOT_CERTIFIED = 1,
    /**
     * An argument, a file or a model is not valid.
     */
    WK_INVALID = 2,
    /**
     * There is no such device, it failed, or memory is short.
     */
    WK_DEVICE = 3,
    /**
     * A defect of the library: please report the text of the error.
     */
    WK_PANIC = 101,
    /**
     * The callback or `wk_interrupt` stopped the run. The solution, if there is one, is the best so far.
     */
    WK_INTERRUPTED = 130,
} wk_status;

/**
 * A hidden Markov model. It does not change, so that threads may share it.
 */
typedef struct wk_hmm wk_hmm;

/**
 * A Markov decision process. It does not change, so that threads may share it.
 */
typedef struct wk_mdp wk_mdp;

/**
 * Values, a policy, and what is proven of them. It belongs to the caller of the solver, and holds no memory of the model.
 */
typedef struct wk_mdp_solution wk_mdp_solution;

/**
 * Options of solves, by name.
 */
typedef struct wk_options wk_options;

/**
 * A partially observable Markov decision process. It does not change, so that threads may share it.
 */
typedef struct wk_pomdp wk_pomdp;

/**
 * Bounds of a value, and a finite-state controller that attains one of them: a mixture of one or two parts, of which a coin chooses
 * one at the start. It belongs to the caller of the solver.
 */
typedef struct wk_pomdp_controller wk_pomdp_controller;

/**
 * Bounds of the value at the start, and a policy as alpha vectors. It belongs to the caller of the solver.
 */
typedef struct wk_pomdp_solution wk_pomdp_solution;

/**
 * Sequences of observations. They do not change, so that threads may share them.
 */
typedef struct wk_sequences wk_sequences;

/**
 * A trained model, and how its training went. It belongs to the caller of the training.
 */
typedef struct wk_training wk_training;

/**
 * A matrix of the caller: compressed sparse rows, or a dense one. It is read during a call, and not kept.
 */
typedef struct {
    /**
     * Number of rows; 0 for no matrix.
     */
    size_t rows;
    /**
     * Number of entries of `col` and `val`.
     */
    size_t count;
    /**
     * rows + 1 positions in `col` and `val`, from 0 to `count`: row r has those from row_ptr[r] to before row_ptr[r + 1].
     */
    const uint64_t *row_ptr;
    /**
     * The column of each entry, distinct in a row, in any order.
     */
    const uint32_t *col;
    /**
     * The value of each entry. If `row_ptr` and `col` are NULL, the matrix is dense: `val` has all rows one after the other, and
     * zeros count as absent.
     */
    const double *val;
} wk_matrix;

/**
 * The arrays of a Markov decision process, with a row for each pair of a state and an action: those of a state are adjacent.
 * Fill unused members with 0: `wk_mdp_parts parts = {.size = sizeof parts, .states = 3};` in C. Everything is copied.
 */
typedef struct {
    /**
     * sizeof(wk_mdp_parts): later versions may add members at the end.
     */
    size_t size;
    /**
     * S, the number of states.
     */
    uint32_t states;
    /**
     * A, the number of actions of every state: row s·A + a belongs to state s and action a. 0 if `offsets` are given.
     */
    uint32_t actions;
    /**
     * S + 1 row numbers, where states have different numbers of actions: state s has the rows from offsets[s] to before
     * offsets[s + 1]. The process ends in a state without rows. NULL if `actions` is given.
     */
    const uint64_t *offsets;
    /**
     * The discount factor, in [0, 1]; below 1 for the discounted criterion.
     */
    double gamma;
    /**
     * Whether to minimise: rewards are costs. 0 maximises.
     */
    int minimize;
    /**
     * P, probabilities of the next states: S columns. Each row sums to 1, with its `ends`.
     */
    wk_matrix transitions;
    /**
     * R(s, a, s'), rewards of transitions: S columns; without rows for none.
     */
    wk_matrix rewards;
    /**
     * r(s, a), one reward per row beside R; NULL for none.
     */
    const double *action_rewards;
    /**
     * The probability that the process ends, one per row; NULL for none.
     */
    const double *ends;
} wk_mdp_parts;

/**
 * The progress of a run. What a class of models does not have is 0, or NaN. Later versions may add members at the end.
 */
typedef struct {
    /**
     * Seconds since the start.
     */
    double seconds;
    /**
     * Number of rounds: evaluations, expansions of the set of beliefs, or M steps.
     */
    uint64_t round;
    /**
     * Number of sweeps over the values of an MDP.
     */
    uint64_t sweeps;
    /**
     * Largest change of a value in the last sweep.
     */
    double residual;
    /**
     * Lower bound of the value of a POMDP at its start.
     */
    double lower;
    /**
     * Upper bound of the value of a POMDP at its start.
     */
    double upper;
    /**
     * ln P(O) of all sequences under the model in training.
     */
    double log_likelihood;
} wk_progress;

/**
 * Called after each round, in the thread that called the solver. `user` is what the solver was given. A result other than 0
 * stops the run. The function must return: it must not throw an exception, nor jump out, nor free what the solver uses.
 */
typedef int (*wk_observer)(void *user, const wk_progress *progress);

/**
 * The arrays of a partially observable Markov decision process. Fill unused members with 0. Everything is copied.
 */
typedef struct {
    /**
     * sizeof(wk_pomdp_parts): later versions may add members at the end.
     */
    size_t size;
    /**
     * S, the number of states.
     */
    uint32_t states;
    /**
     * A, the number of actions.
     */
    uint32_t actions;
    /**
     * The number of observations.
     */
    uint32_t observations;
    /**
     * Whether to minimise: rewards are costs. 0 maximises.
     */
    int minimize;
    /**
     * The discount factor, in [0, 1]; below 1 without a horizon.
     */
    double gamma;
    /**
     * T(s, a, s'): row s·A + a, S columns.
     */
    wk_matrix transitions;
    /**
     * O(a, s', o), the probability of observation o after action a has led to state s': row a·S + s', a column per observation.
     */
    wk_matrix emissions;
    /**
     * R(s, a, s'), with the rows of T; without rows for none.
     */
    wk_matrix rewards;
    /**
     * r(s, a), one reward per row of T beside R; NULL for none.
     */
    const double *action_rewards;
    /**
     * The belief at the start, one probability per state; NULL if all states are equally probable.
     */
    const double *start;
} wk_pomdp_parts;

/**
 * The arrays of a hidden Markov model, of which each state emits symbols, or vectors with a normal density. Fill unused members
 * with 0. Everything is copied.
 */
typedef struct {
    /**
     * sizeof(wk_hmm_parts): later versions may add members at the end.
     */
    size_t size;
    /**
     * N, the number of states.
     */
    uint32_t states;
    /**
     * V, the number of symbols; 0 for vectors.
     */
    uint32_t symbols;
    /**
     * D, the dimension of the vectors; 0 for symbols.
     */
    uint32_t dimensions;
    /**
     * pi, N probabilities of the first state.
     */
    const double *start;
    /**
     * A, N x N probabilities, row by row: from state i to state j.
     */
    const double *transitions;
    /**
     * N probabilities that a sequence ends after a state, which sum to 1 with its row of A; NULL if sequences end anywhere.
     */
    const double *ends;
    /**
     * B, N x V probabilities, row by row: symbol o in state i.
     */
    const double *emissions;
    /**
     * N x D means.
     */
    const double *means;
    /**
     * N x D variances, where covariance matrices are diagonal; otherwise NULL.
     */
    const double *variances;
    /**
     * N x D x D covariances; NULL if `variances` are given.
     */
    const double *covariances;
} wk_hmm_parts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, such as "0.1.0". The text is static.
 */
const char *wk_version(void);

/**
 * The text of the last error in this thread: what was found, and what was expected. It is empty if the last call that returns a status
 * succeeded, never NULL, and stays until the next call of the library in the same thread.
 */
const char *wk_last_error(void);

/**
 * Starts a device, so that no solve has to wait for it: "auto", "cpu", "cuda:0" (or another number) or "emulated". No solve
 * needs this call. Writes the name of the device to `name` unless it is NULL: "NVIDIA H100 (cuda:0)", "16 CPU cores". The text
 * stays until the next such call in the same thread.
 *
 * \return WK_DEVICE if there is no such device, or it cannot be used
 */
wk_status wk_start_device(const char *device,
                          const char **name);

/**
 * Makes options without any set. One of these is not for several threads while it is changed.
 */
wk_status wk_options_new(wk_options **options);

/**
 * Sets an option, such as "epsilon" to "1e-9", in place of an earlier value. NULL as the value removes it. The texts are copied.
 * The solver reads the value: an invalid one is its error.
 *
 * \return WK_INVALID if no solver has an option of this name
 */
wk_status wk_options_set(wk_options *options,
                         const char *name,
                         const char *value);

/**
 * Sets an option of one number per state: "values", at which a discounted solve starts, or "terminal_values", those after the
 * steps of a horizon. NULL removes it. The numbers are copied.
 */
wk_status wk_options_set_array(wk_options *options,
                               const char *name,
                               const double *numbers,
                               size_t count);

/**
 * Frees options; NULL is nothing.
 */
void wk_options_free(wk_options *options);

/**
 * Asks all runs in this process to stop soon, those within a round too, until `wk_interrupt_clear`. A signal handler may call
 * it. A callback stops one run alone, after its round.
 */
void wk_interrupt(void);

/**
 * Ends the request of `wk_interrupt`, so that the process can solve again.
 */
void wk_interrupt_clear(void);

/**
 * Makes a model of arrays, which are copied and checked.
 *
 * \return WK_INVALID if it is no model; the text names the place
 */
wk_status wk_mdp_new(const wk_mdp_parts *parts, wk_mdp **mdp);

/**
 * Reads a model from a file. `format` is a name of the command's formats, such as "json" or "xml"; with NULL, the extension of the
 * file decides, or else the content.
 */
wk_status wk_mdp_read(const char *path,
                      const char *format,
                      wk_mdp **mdp);

/**
 * Makes a model of a family, with the words of `warpkov mdp generate`: "grid --width 16 --height 16".
 */
wk_status wk_mdp_generate(const char *family, wk_mdp **mdp);

/**
 * Writes a model to a file: completely, or not at all. With NULL as the format, the extension decides, or else it is "json".
 */
wk_status wk_mdp_write(const wk_mdp *mdp,
                       const char *path,
                       const char *format);

/**
 * S, the number of states; 0 if `mdp` is NULL.
 */
uint32_t wk_mdp_states(const wk_mdp *mdp);

/**
 * The most actions of a state; 0 if `mdp` is NULL.
 */
uint32_t wk_mdp_actions(const wk_mdp *mdp);

/**
 * The number of pairs of a state and an action; 0 if `mdp` is NULL.
 */
size_t wk_mdp_rows(const wk_mdp *mdp);

/**
 * The discount factor; NaN if `mdp` is NULL.
 */
double wk_mdp_gamma(const wk_mdp *mdp);

/**
 * Frees a model; NULL is nothing. Solutions stay.
 */
void wk_mdp_free(wk_mdp *mdp);

/**
 * Solves a model. `options` may be NULL, and so may `observer`, which is called with `user` after each round.
 *
 * Without options, the criterion is the discounted sum of rewards with an error of at most 1e-6, on the device that suits the
 * size of the model.
 *
 * \param[out] solution the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
 * \return WK_OK if the values are as accurate as asked
 */
wk_status wk_mdp_solve(const wk_mdp *mdp,
                       const wk_options *options,
                       wk_observer observer,
                       void *user,
                       wk_mdp_solution **solution);

/**
 * V, one value per state; of a criterion without a discount, the middle between both bounds. The array stays until the solution is
 * freed; its length goes to `count` unless that is NULL.
 */
const double *wk_mdp_values(const wk_mdp_solution *solution,
                            size_t *count);

/**
 * The action of each state, from 0; UINT32_MAX where a state has none. The array stays until the solution is freed.
 */
const uint32_t *wk_mdp_policy(const wk_mdp_solution *solution, size_t *count);

/**
 * Lower bounds of the optimal values, for a horizon or a criterion without a discount; NULL for the discounted criterion, where
 * `wk_mdp_bound` holds for all states. The array stays until the solution is freed.
 */
const double *wk_mdp_lower(const wk_mdp_solution *solution,
                           size_t *count);

/**
 * Upper bounds, as `wk_mdp_lower`.
 */
const double *wk_mdp_upper(const wk_mdp_solution *solution, size_t *count);

/**
 * The certificate: no value differs by more than this from the optimal one, rounding errors included. Infinite if nothing is
 * proven; NaN if `solution` is NULL.
 */
double wk_mdp_bound(const wk_mdp_solution *solution);

/**
 * The number of sweeps; 0 if `solution` is NULL.
 */
uint64_t wk_mdp_sweeps(const wk_mdp_solution *solution);

/**
 * The seconds that the solve took; NaN if `solution` is NULL.
 */
double wk_mdp_seconds(const wk_mdp_solution *solution);

/**
 * How the run ended, in a word: "solved", "sweep-limit", "policy-limit", "stalled", "overflow" or "interrupted". The text stays until
 * the solution is freed; NULL if `solution` is NULL.
 */
const char *wk_mdp_ended(const wk_mdp_solution *solution);

/**
 * The device that computed the solution, such as "NVIDIA H100 (cuda:0)" or "16 CPU cores". The text stays until the solution is
 * freed; NULL if `solution` is NULL.
 */
const char *wk_mdp_device(const wk_mdp_solution *solution);

/**
 * The report of the command as a JSON object: method, notes, certificate, times, rounds. It has no values and no policy. The text stays
 * until the solution is freed; NULL if `solution` is NULL.
 */
const char *wk_mdp_report(const wk_mdp_solution *solution);

/**
 * Frees a solution; NULL is nothing.
 */
void wk_mdp_solution_free(wk_mdp_solution *solution);

/**
 * Makes a model of arrays, which are copied and checked.
 *
 * \return WK_INVALID if it is no model; the text names the place
 */
wk_status wk_pomdp_new(const wk_pomdp_parts *parts, wk_pomdp **pomdp);

/**
 * Reads a model from a file, with the format "pomdp", "pomdpx" or "json"; with NULL, content and extension decide.
 */
wk_status wk_pomdp_read(const char *path, const char *format, wk_pomdp **pomdp);

/**
 * Makes a model of a family, with the words of `warpkov pomdp generate`: "tiger".
 */
wk_status wk_pomdp_generate(const char *family, wk_pomdp **pomdp);

/**
 * Writes a model to a file: completely, or not at all. With NULL as the format, the extension decides, or else it is "json".
 */
wk_status wk_pomdp_write(const wk_pomdp *pomdp,
                         const char *path,
                         const char *format);

/**
 * S, the number of states; 0 if `pomdp` is NULL.
 */
uint32_t wk_pomdp_states(const wk_pomdp *pomdp);

/**
 * A, the number of actions; 0 if `pomdp` is NULL.
 */
uint32_t wk_pomdp_actions(const wk_pomdp *pomdp);

/**
 * The number of observations; 0 if `pomdp` is NULL.
 */
uint32_t wk_pomdp_observations(const wk_pomdp *pomdp);

/**
 * Writes the belief at the start to `probs`, which has `count` = S elements.
 */
wk_status wk_pomdp_start(const wk_pomdp *pomdp, double *probs, size_t count);

/**
 * Writes to `after` the belief after an action and an observation, by Bayes' rule. Both beliefs have `count` = S elements, and may be
 * the same array.
 *
 * \return WK_INVALID if the observation is impossible there
 */
wk_status wk_pomdp_update(const wk_pomdp *pomdp,
                          const double *belief,
                          uint32_t action,
                          uint32_t observation,
                          double *after,
                          size_t count);

/**
 * Frees a model; NULL is nothing. Solutions stay.
 */
void wk_pomdp_free(wk_pomdp *pomdp);

/**
 * Solves a model. `options` may be NULL, and so may `observer`, which is called with `user` after each round.
 *
 * \param[out] solution the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
 * \return WK_OK if the bounds are as close as asked
 */
wk_status wk_pomdp_solve(const wk_pomdp *pomdp,
                         const wk_options *options,
                         wk_observer observer,
                         void *user,
                         wk_pomdp_solution **solution);

/**
 * A proven lower bound of the optimal value at the start; of costs, an upper one is attained. NaN if `solution` is NULL.
 */
double wk_pomdp_lower(const wk_pomdp_solution *solution);

/**
 * A proven upper bound of the optimal value at the start; NaN if `solution` is NULL.
 */
double wk_pomdp_upper(const wk_pomdp_solution *solution);

/**
 * The actions of the alpha vectors, one per vector; their number goes to `count` unless that is NULL. The array stays until the
 * solution is freed.
 */
const uint32_t *wk_pomdp_vector_actions(const wk_pomdp_solution *solution,
                                        size_t *count);

/**
 * The alpha vectors one after the other, S values each: the value of a belief is the largest product with one of them, of costs the
 * smallest. The array stays until the solution is freed.
 */
const double *wk_pomdp_vector_values(const wk_pomdp_solution *solution,
                                     size_t *count);

/**
 * The action of the policy in a belief, and its value there, which goes to `value` unless that is NULL. `belief` has `count` = S
 * elements.
 */
wk_status wk_pomdp_action(const wk_pomdp_solution *solution,
                          const double *belief,
                          size_t count,
                          uint32_t *action,
                          double *value);

/**
 * Writes the policy to a file: "alpha" or "policy-xml", its vectors; "pg" or "dot", its controller. With NULL as the format, the
 * extension decides, or else it is "alpha".
 */
wk_status wk_pomdp_write_policy(const wk_pomdp_solution *solution,
                                const char *path,
                                const char *format);

/**
 * How the run ended, in a word: "gap", "target", "time", "memory", "iterations", "stalled" or "interrupted". The text stays until the
 * solution is freed; NULL if `solution` is NULL.
 */
const char *wk_pomdp_ended(const wk_pomdp_solution *solution);

/**
 * The report of the command as a JSON object: bounds, method, device, notes, rounds. The text stays until the solution is freed; NULL
 * if `solution` is NULL.
 */
const char *wk_pomdp_report(const wk_pomdp_solution *solution);

/**
 * Frees a solution; NULL is nothing.
 */
void wk_pomdp_solution_free(wk_pomdp_solution *solution);

/**
 * Bounds the best probability of reaching goal states from the start, or the best sum of rewards until then. Ignores the discount.
 *
 * The option "goal" has the goal states, names or numbers: "3,17", "!lost & !start". The option "criterion" is "reach", the probability,
 * or "total", the sum; "minimize" makes either the least. The controller attains the lower bound of a maximum, or the upper bound of a
 * minimum. A bound may be infinite. `observer` may be NULL; it is called with `user` after each round.
 *
 * \param[out] controller the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
 * \return WK_OK if the bounds are as close as asked
 */
wk_status wk_pomdp_reach(const wk_pomdp *pomdp,
                         const wk_options *options,
                         wk_observer observer,
                         void *user,
                         wk_pomdp_controller **controller);

/**
 * Bounds the best value of the start belief among the policies that keep the expected discounted sum of costs within a limit: the
 * option "at_most" or "at_least". `costs` has the cost c(s, a) at s·A + a, `count` = S·A numbers. `observer` may be NULL; it is called
 * with `user` after each round.
 *
 * \param[out] controller the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
 * \return WK_OK if the bounds are as close as asked; WK_NOT_CERTIFIED without a result if no policy is within the limit
 */
wk_status wk_pomdp_constrain(const wk_pomdp *pomdp,
                             const double *costs,
                             size_t count,
                             const wk_options *options,
                             wk_observer observer,
                             void *user,
                             wk_pomdp_controller **controller);

/**
 * A proven lower bound of the optimal value at the start; NaN if `controller` is NULL.
 */
double wk_pomdp_controller_lower(const wk_pomdp_controller *controller);

/**
 * A proven upper bound of the optimal value at the start; NaN if `controller` is NULL.
 */
double wk_pomdp_controller_upper(const wk_pomdp_controller *controller);

/**
 * The action of each node; their number goes to `count` unless that is NULL. The array stays until the controller is freed.
 */
const uint32_t *wk_pomdp_controller_actions(const wk_pomdp_controller *controller,
                                            size_t *count);

/**
 * The node that follows node i after observation o, at i·|Ω| + o; UINT32_MAX where the observation is impossible, or where the
 * controller ends. The array stays until the controller is freed.
 */
const uint32_t *wk_pomdp_controller_next(const wk_pomdp_controller *controller,
                                         size_t *count);

/**
 * The probability of each part of the mixture; their number goes to `count` unless that is NULL. The array stays until the controller
 * is freed.
 */
const double *wk_pomdp_controller_probabilities(const wk_pomdp_controller *controller,
                                                size_t *count);

/**
 * The nodes in which a part of the mixture begins: one, or of a model whose start has a fully observed component, one for each value of
 * it. The array stays until the controller is freed; NULL if there is no such part.
 */
const uint32_t *wk_pomdp_controller_starts(const wk_pomdp_controller *controller,
                                           size_t part,
                                           size_t *count);

/**
 * Writes the controller to a file, as "pg" or "dot". With NULL as the format, the extension decides, or else it is "pg".
 */
wk_status wk_pomdp_controller_write(const wk_pomdp_controller *controller,
                                    const char *path,
                                    const char *format);

/**
 * How the run ended, in a word: "gap", "target", "time", "memory", "iterations", "stalled" or "interrupted". The text stays until the
 * controller is freed; NULL if `controller` is NULL.
 */
const char *wk_pomdp_controller_ended(const wk_pomdp_controller *controller);

/**
 * The report of the command as a JSON object. The text stays until the controller is freed; NULL if `controller` is NULL.
 */
const char *wk_pomdp_controller_report(const wk_pomdp_controller *controller);

/**
 * Frees a controller; NULL is nothing.
 */
void wk_pomdp_controller_free(wk_pomdp_controller *controller);

/**
 * Makes a model of arrays, which are copied and checked.
 *
 * \return WK_INVALID if it is no model; the text names the place
 */
wk_status wk_hmm_new(const wk_hmm_parts *parts, wk_hmm **hmm);

/**
 * Reads a model from a file, with the format "json", "npz" or "umdhmm"; with NULL, extension and content decide.
 */
wk_status wk_hmm_read(const char *path, const char *format, wk_hmm **hmm);

/**
 * Writes a model to a file: completely, or not at all. With NULL as the format, the extension decides, or else it is "json".
 */
wk_status wk_hmm_write(const wk_hmm *hmm,
                       const char *path,
                       const char *format);

/**
 * N, the number of states; 0 if `hmm` is NULL.
 */
uint32_t wk_hmm_states(const wk_hmm *hmm);

/**
 * pi, N probabilities. The array stays until the model is freed; its length goes to `count` unless that is NULL.
 */
const double *wk_hmm_start(const wk_hmm *hmm, size_t *count);

/**
 * A, N x N probabilities, row by row, as `wk_hmm_start`.
 */
const double *wk_hmm_transitions(const wk_hmm *hmm, size_t *count);

/**
 * B, N x V probabilities, or the N x D means of vectors, row by row, as `wk_hmm_start`.
 */
const double *wk_hmm_emissions(const wk_hmm *hmm, size_t *count);

/**
 * N x D variances, or N x D x D covariances of vectors, as `wk_hmm_start`; NULL for symbols.
 */
const double *wk_hmm_covariances(const wk_hmm *hmm, size_t *count);

/**
 * Frees a model; NULL is nothing.
 */
void wk_hmm_free(wk_hmm *hmm);

/**
 * Makes M sequences of symbols, one behind the other, which are copied. `offsets` has M + 1 elements, from 0 to `count`: sequence m
 * has the symbols from offsets[m] to before offsets[m + 1], at least one.
 */
wk_status wk_sequences_of_symbols(const uint64_t *offsets,
                                  size_t sequence_count,
                                  const uint32_t *symbols,
                                  size_t count,
                                  wk_sequences **sequences);

/**
 * Makes M sequences of vectors of D numbers, one behind the other, which are copied. `values` has `count` vectors, so count x D
 * elements, and NaN is a missing number. `offsets` counts vectors, as in `wk_sequences_of_symbols`.
 */
wk_status wk_sequences_of_vectors(const uint64_t *offsets,
                                  size_t sequence_count,
                                  uint32_t dimensions,
                                  const double *values,
                                  size_t count,
                                  wk_sequences **sequences);

/**
 * Reads sequences for a model, whose names of symbols they may have, from a file with the format "lines", "csv", "fasta", "npy" or
 * "umdhmm"; with NULL, extension and content decide.
 */
wk_status wk_sequences_read(const wk_hmm *hmm,
                            const char *path,
                            const char *format,
                            wk_sequences **sequences);

/**
 * M, the number of sequences; 0 if `sequences` is NULL.
 */
size_t wk_sequences_count(const wk_sequences *sequences);

/**
 * The number of observations of all sequences; 0 if `sequences` is NULL.
 */
size_t wk_sequences_steps(const wk_sequences *sequences);

/**
 * Frees sequences; NULL is nothing.
 */
void wk_sequences_free(wk_sequences *sequences);

/**
 * Writes ln P(O) of each sequence to `log_likelihoods`, which has `count` = M elements: minus infinity where a sequence is
 * impossible. `options` may be NULL; they have "device" and "precision".
 */
wk_status wk_hmm_score(const wk_hmm *hmm,
                       const wk_sequences *sequences,
                       const wk_options *options,
                       double *log_likelihoods,
                       size_t count);

/**
 * Decodes: writes the states of the most probable path of each sequence to `states`, which has `steps` elements, one per observation,
 * and ln P(O, path) to `scores`, which has `count` = M elements, unless that is NULL. An impossible sequence has UINT32_MAX, and minus
 * infinity. Options are those of `wk_hmm_score`.
 */
wk_status wk_hmm_decode(const wk_hmm *hmm,
                        const wk_sequences *sequences,
                        const wk_options *options,
                        uint32_t *states,
                        size_t steps,
                        double *scores,
                        size_t count);

/**
 * Writes the probability of each state at each observation, given its whole sequence, to `probs`, which has `count` elements: N for
 * each observation. Options are those of `wk_hmm_score`.
 */
wk_status wk_hmm_posteriors(const wk_hmm *hmm,
                            const wk_sequences *sequences,
                            const wk_options *options,
                            double *probs,
                            size_t count);

/**
 * Trains a model by the algorithm of Baum and Welch, which finds a local maximum of the likelihood. `options` may be NULL, and so may
 * `observer`, which is called with `user` after each E step.
 *
 * \param[out] training the result, also for WK_NOT_CERTIFIED, and for WK_INTERRUPTED if the run has come so far; otherwise NULL
 * \return WK_OK if the training has converged
 */
wk_status wk_hmm_train(const wk_hmm *hmm,
                       const wk_sequences *sequences,
                       const wk_options *options,
                       wk_observer observer,
                       void *user,
                       wk_training **training);

/**
 * Makes a copy of the trained model, which the caller frees with `wk_hmm_free`.
 */
wk_status wk_training_model(const wk_training *training, wk_hmm **hmm);

/**
 * ln P(O) of all sequences before the first iteration, and after each. The array stays until the training is freed; its length goes to
 * `count` unless that is NULL.
 */
const double *wk_training_log_likelihoods(const wk_training *training,
                                          size_t *count);

/**
 * How the training ended, in a word: "converged", "iterations", "fell" or "interrupted". The text stays until the training is freed;
 * NULL if `training` is NULL.
 */
const char *wk_training_ended(const wk_training *training);

/**
 * Frees a training; NULL is nothing. Models that were taken from it stay.
 */
void wk_training_free(wk_training *training);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WARPKOV_H */
