//! The decision charts of the book, as SVG: a column of questions, of which each leads to the right if the answer is yes, and down
//! if it is no. The text fits a page of 400 pixels. All text stands on boxes of its own colour, so that light and dark pages
//! show it alike.
//!
//! `tests/program/figures.rs` compares the files beside this one with [`charts`], and writes them.

use std::fmt::Write;

/// A chart: the name of its file, a description for readers who do not see it, the questions with the answers to yes, and the answer
/// if all are no. Lines are separated by `\n`.
struct Chart {
    name: &'static str,
    title: &'static str,
    questions: &'static [(&'static str, &'static str)],
    otherwise: &'static str,
}

const CHARTS: [Chart; 3] = [
    Chart {
        name: "mdp-methods.svg",
        title: "Which method for a Markov decision process",
        questions: &[
            ("Is there no discount, or\na number of steps?", "reach, total,\naverage, horizon"),
            ("Is P a formula, and\ntoo large to store?", "a model as\nRust code"),
            ("Do you compare with\na published method?", "--method\nby its name"),
            ("Is there a GPU, and\nmuch work for it?", "values\non the GPU"),
            ("Is γ near 1, and values\nsweeps for long?", "krylov"),
            ("Are greedy sweeps dear:\nmany actions per state?", "try modified"),
            ("Does the process end,\non a CPU?", "try gauss-seidel"),
        ],
        otherwise: "values: the default",
    },
    Chart {
        name: "pomdp-methods.svg",
        title: "Which search for a partially observable model",
        questions: &[
            ("Is the number of steps\nfixed, or γ = 1?", "--horizon"),
            ("Is there a GPU, and is\nthe model large?", "walks\non the GPU"),
            ("Do you compare with\nPBVI or Perseus?", "random, ssea, ger\nwith --backups"),
            ("Do observations soon\ntell the state?", "try fsvi"),
            ("Does progress stall\nwith mixed?", "try sarsop, hsvi"),
        ],
        otherwise: "mixed: the default",
    },
    Chart {
        name: "hmm-methods.svg",
        title: "Which command and precision for a hidden Markov model",
        questions: &[
            ("Are the parameters\nunknown?", "hmm train\n--restarts"),
            ("How likely are\nthe data?", "hmm score"),
            ("Which path, as a whole?", "hmm decode\n(Viterbi)"),
            ("Which state,\nstep by step?", "hmm posterior"),
        ],
        otherwise: "hmm sample: new data",
    },
];

/// The crates, in layers: those of a layer depend on layers below, and pomdp on mdp. Each has its package, and what it holds.
pub const CRATES: [&[(&str, &str)]; 7] = [
    &[
        ("warpkov", "program,\nfacade"),
        ("warpkov-python", "the package\nfor Python"),
        ("warpkov-capi", "the library\nfor C"),
    ],
    &[("warpkov-cli", "commands and their reports")],
    &[("warpkov-bench", "measurements"), ("warpkov-verify", "proofs")],
    &[
        ("warpkov-mdp", "models,\nbackends,\ncertificates"),
        ("warpkov-pomdp", "beliefs,\nbackups,\nbounds"),
        ("warpkov-hmm", "sequences,\nrecursions,\ntraining"),
    ],
    &[("warpkov-runtime", "devices, ranks, PTX of all kernels")],
    &[("warpkov-common", "files, plots,\nreports"), ("warpkov-kernels", "all device\ncode")],
    &[
        ("warpkov-device", "language\nof kernels,\nemulator"),
        ("warpkov-cuda", "loading and\nlaunching"),
        ("warpkov-build", "Rust to PTX,\naudit"),
    ],
];

/// Width of a chart in pixels.
const WIDTH: u32 = 380;
/// Left edge and width of a question and of an answer.
const QUESTION: (u32, u32) = (4, 198);
const ANSWER: (u32, u32) = (242, 134);
/// Height of a line of text, space above and below the lines of a box, and space between boxes.
const LINE: u32 = 18;
const PADDING: u32 = 8;
const GAP: u32 = 30;
/// Width and height of "yes" and "no".
const LABEL: (u32, u32) = (30, 18);

/// Fill and border of questions, answers, and labels.
const COLOURS: [(&str, &str); 3] = [("#e6edf8", "#4a6fa5"), ("#e2f1de", "#4c8c43"), ("#ffffff", "#808080")];

fn height(text: &str) -> u32 {
    text.lines().count() as u32 * LINE + 2 * PADDING
}

/// A box with its text in the middle.
fn boxed(svg: &mut String, text: &str, (left, width): (u32, u32), top: u32, height: u32, (fill, border): (&str, &str)) {
    let lines = text.lines().count() as u32;
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{fill}\" stroke=\"{border}\"/>"
    );
    for (at, line) in (0..).zip(text.lines()) {
        // The base line is 5 pixels below the middle of a line.
        let (x, y) = (left + width / 2, top + (height - lines * LINE) / 2 + at * LINE + LINE / 2 + 5);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{line}</text>");
    }
}

/// An arrow with a label in its middle.
fn arrow(svg: &mut String, label: &str, (x0, y0): (u32, u32), (x1, y1): (u32, u32)) {
    let _ = writeln!(svg, "<path d=\"M{x0} {y0}L{x1} {y1}\" stroke=\"#808080\" marker-end=\"url(#head)\"/>");
    let (left, top) =
        ((x0 + x1 - LABEL.0) / 2 - u32::from(y0 == y1) * 3, (y0 + y1 - LABEL.1) / 2 - u32::from(x0 == x1) * 3);
    boxed(svg, label, (left, LABEL.0), top, LABEL.1, COLOURS[2]);
}

fn drawn(chart: &Chart) -> String {
    let mut body = String::new();
    let mut top = 4;
    let middle = QUESTION.0 + QUESTION.1 / 2;
    for (question, answer) in chart.questions {
        let high = height(question).max(height(answer));
        boxed(&mut body, question, QUESTION, top, high, COLOURS[0]);
        boxed(&mut body, answer, ANSWER, top, high, COLOURS[1]);
        let centre = top + high / 2;
        arrow(&mut body, "yes", (QUESTION.0 + QUESTION.1, centre), (ANSWER.0, centre));
        arrow(&mut body, "no", (middle, top + high), (middle, top + high + GAP));
        top += high + GAP;
    }
    let high = height(chart.otherwise);
    boxed(&mut body, chart.otherwise, QUESTION, top, high, COLOURS[1]);
    picture(chart.title, top + high + 4, &body)
}

/// The crates in their layers, with an arrow from each layer to the next.
fn crates() -> String {
    let (mut body, mut top) = (String::new(), 4);
    for (number, layer) in CRATES.iter().enumerate() {
        let texts = layer.iter().map(|(name, what)| format!("{}\n{what}", name.trim_start_matches("warpkov-")));
        let texts: Vec<String> = texts.collect();
        let high = texts.iter().map(|text| height(text)).max().unwrap_or(0);
        let (count, gap) = (texts.len() as u32, 8);
        let width = (WIDTH - 8 - gap * (count - 1)) / count;
        for (at, text) in (0..).zip(&texts) {
            boxed(&mut body, text, (4 + at * (width + gap), width), top, high, COLOURS[number / 3 % 2]);
        }
        top += high + 8;
    }
    picture("The crates of warpkov, in layers: each depends on layers below it", top, &body)
}

fn picture(title: &str, height: u32, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <defs><marker id=\"head\" markerWidth=\"7\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0 0L7 4L0 8Z\" \
         fill=\"#808080\"/></marker></defs>\n\
         <g font-family=\"sans-serif\" font-size=\"14\" text-anchor=\"middle\" fill=\"#1a1a1a\" stroke-width=\"1.5\">\n{body}</g>\n</svg>\n"
    )
}

/// Name and content of each chart.
#[must_use]
pub fn charts() -> Vec<(&'static str, String)> {
    let charts = CHARTS.iter().map(|chart| (chart.name, drawn(chart)));
    charts.chain([("crates.svg", crates())]).collect()
}
