//! All readers of files, for the mutations of this program and for cargo-fuzz.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use warpkov::common::checkpoint::Contents;
use warpkov::common::choice::Choice;
use warpkov::common::io::npy;
use warpkov::common::io::npz::Members;
use warpkov::hmm::io::sequences::{self, Missing, ReadOptions};
use warpkov::hmm::model::{Hmm, HmmParts};
use warpkov::hmm::sequences::{Observations, Sequences};
use warpkov::mdp::model::Mdp;
use warpkov::pomdp::alpha::AlphaVectors;
use warpkov::pomdp::model::Pomdp;
use warpkov::{hmm, mdp, pomdp};

/// The message for a file that is refused, or the checks of what it holds.
pub type Read = Result<Box<dyn FnOnce()>, String>;

/// A reader of one file.
pub struct Reader {
    /// Its name, which is that of its folder in `corpus` too.
    pub name: &'static str,
    /// Name of the file, whose extension says the format.
    pub file: &'static str,
    /// Files of `data` that are in the corpus.
    pub data: &'static [&'static str],
    /// Files of the corpus that the library writes.
    pub made: fn() -> Vec<Vec<u8>>,
    /// The files beside it, which are not mutated.
    pub beside: fn() -> Vec<(&'static str, Vec<u8>)>,
    /// Packs a mutated part of a file.
    pub wrap: fn(&[u8]) -> Vec<u8>,
    /// Inputs that are not read.
    pub skips: fn(&[u8]) -> bool,
    /// Words of the format.
    pub tokens: &'static [&'static str],
    /// Number of inputs in a run of the tests.
    pub inputs: u64,
    /// Most memory of a read: bytes for each byte of the file, and bytes for buffers and for what the file may declare.
    pub memory: [usize; 2],
    /// Reads the file at this path.
    pub read: fn(&Path) -> Read,
}

/// A text without other files. Buffers take 4 MiB where the text is JSON.
const TEXT: Reader = Reader {
    name: "",
    file: "",
    data: &[],
    made: Vec::new,
    beside: Vec::new,
    wrap: <[u8]>::to_vec,
    skips: |_| false,
    tokens: &[],
    inputs: 1000,
    memory: [1024, 8 << 20],
    read: |_| Err(String::new()),
};

/// Text that is read as a stream has no limit when it is decompressed. The dictionary of xz may take 256 MiB.
const PACKED: [usize; 2] = [1 << 20, 320 << 20];

/// An array may be a thousand times as long as its file.
const ARCHIVE: [usize; 2] = [1 << 14, 16 << 20];

/// Tokens of JSON, and keys of models.
const JSON: &[&str] = &[
    "null",
    "true",
    "[",
    "]",
    "{",
    "}",
    "[]",
    "{}",
    "\"S\":",
    "\"A\":",
    "\"gamma\":",
    "\"P\":",
    "\"R\":",
    "\"indptr\":",
    "\"seen\":",
    "\"names\":",
    "\"state_names\":",
    "\"choices\":",
    "\"labels\":",
    "\"grid\":",
    "\"start\":",
    "\"transitions\":",
    "\"R[s]\":",
    "\"O\":",
    "\"comment\":",
    "\"_\":",
    "\\u0000",
    "\\ud800",
    "\"pi\":",
    "\"means\":",
    "\"covariances\":",
    "\"nu\":",
    "\"durations\":",
    "{\"geometric\": {\"probability\": 0.5}}",
    "1e308",
    ",0,0,0,0",
    "\"values\":",
];

const POMDP: &[&str] = &[
    "T: * ",
    "O:",
    " R: ",
    " uniform ",
    "identity",
    "reset",
    "start",
    "start:",
    "include: ",
    "exclude",
    "*",
    " : ",
    "1e999",
    "1.",
    ".",
    "-",
    "999999999",
    "18446744073709551616",
    "0.5",
    "values: cost",
    "\u{feff}",
    "\0",
    "observations: 2 ",
    "states: 3 ",
    "actions: 1 ",
];

const XML: &[&str] = &[
    "<",
    "</",
    "/>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?xml",
    "&amp;",
    "&lt;",
    "&#0;",
    "&#x110000;",
    "id=\"0\"",
    "<Entry>",
    "</Entry>",
    "<State id=\"1\">",
    "</State>",
    "<Action id=\"1\">",
    "*",
    "-",
    "uniform",
    "identity",
    "null",
    "<a><a><a><a>",
    "numObsValue=\"2\"",
    "vectorLength=\"9\"",
    "probability=\"0.5\"",
];

const WORDS: &[&str] = &[
    "\"",
    ",",
    ";",
    "\t",
    "\r\n",
    "\u{feff}",
    "\0",
    "NA",
    "nan",
    "?",
    "-",
    "state",
    "action",
    "value",
    "step",
    "sequence",
    ">",
    "N",
    "#END",
    "#DECLARATION",
    "\"init\"",
    "mdp\n",
    "dtmc\n",
    "@model\n",
    "@nr_states\n",
    "@placeholders\n",
    "state 0",
    "action a [1]",
    "[",
    "]",
    "A:",
    "S:0:0:1",
    "D:0:1:0",
    "M= 2",
    "N= 1",
    "T= 3",
    "pi:",
    "Optimal value:",
    "Optimal policy:",
    "->",
    "label=",
    "start",
    "é",
];

/// Tokens of the headers of arrays and of safetensors.
const ARRAYS: &[&str] = &[
    "(0,)",
    "(1, 2)",
    "(2, 0, 0)",
    "(4294967295,)",
    "(0, 4294967295)",
    "True",
    "<f4",
    ">f8",
    "<i8",
    "|b1",
    "<U3",
    "|O",
    "[0]",
    "\"F64\"",
    "\"U64\"",
    "\"I64\"",
    "\"U8\"",
    "\"shape\":[4294967296]",
    "\"data_offsets\":[0,8]",
    "PK\u{3}\u{4}",
    "\0\0\0\0\0\0\0\0",
    "-nan",
    "inf",
];

/// All readers.
pub const READERS: &[Reader] = &[
    Reader {
        name: "mdp-json",
        file: "m.json",
        data: &["listing-a1.json", "replacement.json", "replacement-by-action.json", "table-3.1.json"],
        tokens: JSON,
        read: mdp_model,
        ..TEXT
    },
    Reader { name: "gymnasium", file: "m.json", tokens: JSON, read: mdp_model, ..TEXT },
    Reader { name: "csv", file: "m.csv", tokens: WORDS, read: mdp_model, ..TEXT },
    Reader {
        name: "prism",
        file: "m.tra",
        data: &["forest.tra"],
        beside: || {
            vec![("m.lab", data("forest.lab")), ("m.srew", data("forest.srew")), ("m.trew", data("forest.trew"))]
        },
        tokens: WORDS,
        read: mdp_model,
        ..TEXT
    },
    Reader { name: "prism-labels", file: "m.lab", data: &["forest.lab"], ..PRISM },
    Reader { name: "prism-variables", file: "m.sta", data: &["forest.sta"], ..PRISM },
    Reader { name: "prism-state-rewards", file: "m.srew", data: &["forest.srew"], ..PRISM },
    Reader { name: "prism-transition-rewards", file: "m.trew", data: &["forest.trew"], ..PRISM },
    Reader { name: "storm", file: "m.tra", data: &["forest-storm.tra"], tokens: WORDS, read: mdp_model, ..TEXT },
    Reader { name: "storm-labels", file: "m.lab", data: &["forest-storm.lab"], ..STORM },
    Reader { name: "storm-state-rewards", file: "m.state.rew", data: &["forest-storm.state.rew"], ..STORM },
    Reader { name: "storm-transition-rewards", file: "m.trans.rew", data: &["forest-storm.trans.rew"], ..STORM },
    Reader { name: "drn", file: "m.drn", data: &["forest.drn"], tokens: WORDS, read: mdp_model, ..TEXT },
    Reader { name: "xml", file: "m.xml", data: &["forest.xml"], tokens: XML, read: mdp_model, ..TEXT },
    Reader { name: "text", file: "m.txt", data: &["forest.txt"], tokens: WORDS, read: mdp_model, ..TEXT },
    Reader {
        name: "petsc",
        file: "m.P.bin",
        data: &["forest.P.bin", "forest-64-bit.P.bin"],
        beside: || vec![("m.g.bin", data("forest.g.bin"))],
        read: mdp_model,
        ..TEXT
    },
    Reader {
        name: "petsc-costs",
        file: "m.g.bin",
        data: &["forest.g.bin", "forest-64-bit.g.bin"],
        beside: || vec![("m.P.bin", data("forest.P.bin"))],
        read: |path| mdp_model(&path.with_file_name("m.P.bin")),
        ..TEXT
    },
    Reader {
        name: "npz",
        file: "m.npz",
        data: &[
            "forest-quantecon.npz",
            "forest-scipy-rewards.npz",
            "forest-toolbox-dense.npz",
            "puterman-quantecon.npz",
        ],
        made: || written("m.npz"),
        tokens: ARRAYS,
        memory: ARCHIVE,
        read: mdp_model,
        ..TEXT
    },
    // The array P of an archive.
    Reader {
        name: "npz-array",
        file: "m.npz",
        made: cube,
        wrap: npz,
        tokens: ARRAYS,
        memory: ARCHIVE,
        read: mdp_model,
        ..TEXT
    },
    Reader {
        name: "safetensors",
        file: "m.safetensors",
        made: || written("m.safetensors"),
        tokens: ARRAYS,
        read: mdp_model,
        ..TEXT
    },
    Reader {
        name: "safetensors-parts",
        file: "m.safetensors",
        made: || written("m.safetensors"),
        tokens: ARRAYS,
        read: mdp_parts,
        ..TEXT
    },
    Reader {
        name: "umb",
        file: "m.umb",
        data: &["walk.umb", "walk-exact.umb"],
        memory: PACKED,
        read: mdp_model,
        ..TEXT
    },
    // The index of an archive.
    Reader {
        name: "umb-index",
        file: "m.umb",
        made: || umb_files().into_iter().filter(|(header, _)| is_index(header)).map(|(_, bytes)| bytes).collect(),
        wrap: umb,
        tokens: JSON,
        read: mdp_model,
        ..TEXT
    },
    Reader { name: "gzip", wrap: gzip, ..COMPRESSED },
    Reader { name: "xz", wrap: xz, ..COMPRESSED },
    Reader { name: "zstd", wrap: zstd, ..COMPRESSED },
    Reader { name: "policy-csv", file: "p.csv", tokens: WORDS, read: mdp_policy, ..TEXT },
    Reader { name: "policy-json", file: "p.json", tokens: JSON, read: mdp_policy, ..TEXT },
    Reader { name: "policy-text", file: "p.txt", tokens: WORDS, read: mdp_policy, ..TEXT },
    Reader {
        name: "policy-npy",
        file: "p.npy",
        made: || vec![array("<i8", &[6], &[0, 1, 0, 1, 1, 1]), array("<i8", &[1, 6], &[0; 6])],
        tokens: ARRAYS,
        read: mdp_policy,
        ..TEXT
    },
    Reader { name: "solution-csv", file: "v.csv", tokens: WORDS, read: solution, ..TEXT },
    Reader { name: "solution-json", file: "v.json", tokens: JSON, read: solution, ..TEXT },
    Reader { name: "solution-text", file: "v.txt", tokens: WORDS, read: solution, ..TEXT },
    Reader {
        name: "solution-npy",
        file: "v.npy",
        made: || vec![array("<f8", &[3], &[1.5, -2.0, 0.0].map(f64::to_bits))],
        beside: || vec![("v.policy.npy", array("<i8", &[3], &[0, 1, u64::MAX]))],
        tokens: ARRAYS,
        read: solution,
        ..TEXT
    },
    Reader { name: "values", file: "v", tokens: WORDS, read: values, ..TEXT },
    Reader {
        name: "values-npy",
        file: "v.npy",
        made: || vec![array("<f8", &[3], &[1.5, -2.0, 0.0].map(f64::to_bits))],
        tokens: ARRAYS,
        read: values,
        ..TEXT
    },
    Reader {
        name: "mdp-checkpoint",
        file: "m.ckpt",
        made: mdp_checkpoints,
        tokens: ARRAYS,
        read: mdp_checkpoint,
        ..TEXT
    },
    Reader {
        name: "pomdp",
        file: "m.pomdp",
        tokens: POMDP,
        inputs: 5000,
        skips: declares_much,
        memory: [1024, 64 << 20],
        read: pomdp_model,
        ..TEXT
    },
    Reader {
        name: "pomdpx",
        file: "m.pomdpx",
        tokens: XML,
        inputs: 2000,
        skips: declares_much,
        memory: [1024, 64 << 20],
        read: pomdp_model,
        ..TEXT
    },
    Reader {
        name: "pomdp-json",
        file: "m.json",
        data: &["two-state.json"],
        tokens: JSON,
        made: tiger,
        read: pomdp_model,
        ..TEXT
    },
    Reader { name: "alpha", file: "p.alpha", tokens: WORDS, read: vectors, ..TEXT },
    // Sparse vectors without a model take 8 MiB, and as much for the result.
    Reader { name: "policy-xml", file: "p.policy", tokens: XML, memory: [1024, 40 << 20], read: vectors, ..TEXT },
    Reader { name: "policy-graph", file: "p.pg", tokens: WORDS, read: controller, ..TEXT },
    Reader { name: "policy-dot", file: "p.dot", tokens: WORDS, read: controller, ..TEXT },
    Reader {
        name: "beliefs",
        file: "b.txt",
        data: &["two-state.beliefs"],
        tokens: WORDS,
        read: |path| outcome(pomdp::io::beliefs::read(path, 2), |_| ()),
        ..TEXT
    },
    Reader {
        name: "pomdp-checkpoint",
        file: "p.ckpt",
        made: || vec![pomdp_checkpoint()],
        tokens: ARRAYS,
        read: |path| outcome(pomdp::checkpoint::Checkpoint::read(path, &TIGER), |_| ()),
        ..TEXT
    },
    // A duration of many steps is an A of their square.
    Reader { name: "hmm-json", file: "m.json", tokens: JSON, read: hmm_model, memory: [1024, 160 << 20], ..TEXT },
    Reader { name: "hmm-posterior", file: "q.json", tokens: JSON, read: beliefs, ..TEXT },
    Reader { name: "umdhmm", file: "m.hmm", tokens: WORDS, read: hmm_model, ..TEXT },
    Reader {
        name: "hmm-npz",
        file: "m.npz",
        made: hmm_archives,
        tokens: ARRAYS,
        memory: ARCHIVE,
        read: hmm_model,
        ..TEXT
    },
    Reader { name: "sequences-lines", file: "s.txt", data: &["ice-cream.txt"], tokens: WORDS, read: symbols, ..TEXT },
    Reader { name: "sequences-csv", file: "s.csv", tokens: WORDS, read: symbols, ..TEXT },
    Reader { name: "sequences-umdhmm", file: "s.seq", tokens: WORDS, read: symbols, ..TEXT },
    Reader { name: "sequences-fasta", file: "s.fasta", tokens: WORDS, read: |path| observed(path, None, &DNA), ..TEXT },
    Reader {
        name: "sequences-vectors",
        file: "s.csv",
        tokens: WORDS,
        read: |path| observed(path, None, &PLANE),
        ..TEXT
    },
    Reader {
        name: "sequences-npy",
        file: "s.npy",
        made: || vec![array("<i8", &[5, 1], &[0, 1, 2, 2, 1]), array("<f8", &[2], &[1.0, 2.0].map(f64::to_bits))],
        tokens: ARRAYS,
        read: symbols,
        ..TEXT
    },
    Reader {
        name: "sequences-lengths",
        file: "lengths.npy",
        made: || vec![array("<i8", &[2], &[2, 3]), array("<f8", &[2], &[1.0, 4.0].map(f64::to_bits))],
        beside: || vec![("s.npy", array("<i8", &[5, 1], &[0, 1, 2, 2, 1]))],
        tokens: ARRAYS,
        read: |path| observed(&path.with_file_name("s.npy"), Some(path), &ICE_CREAM),
        ..TEXT
    },
    Reader { name: "sequences-states", file: "states.txt", tokens: WORDS, read: states, ..TEXT },
    Reader {
        name: "sequences-states-npy",
        file: "states.npy",
        made: || vec![array("<i8", &[3], &[0, 1, u64::MAX])],
        tokens: ARRAYS,
        read: states,
        ..TEXT
    },
    Reader { name: "sequences-ties", file: "ties.txt", tokens: WORDS, read: tied_transitions, ..TEXT },
    Reader {
        name: "sequences-ties-npy",
        file: "ties.npy",
        made: || vec![array("<i8", &[2, 2], &[0, 1, 1, 0])],
        tokens: ARRAYS,
        read: tied_transitions,
        ..TEXT
    },
    Reader { name: "sequences-weights", file: "weights.txt", tokens: WORDS, read: weights, ..TEXT },
    Reader {
        name: "hmm-checkpoint",
        file: "t.ckpt",
        made: || vec![hmm_checkpoint()],
        tokens: ARRAYS,
        read: training,
        ..TEXT
    },
];

/// A file beside the transitions of PRISM.
const PRISM: Reader = Reader {
    beside: || vec![("m.tra", data("forest.tra"))],
    tokens: WORDS,
    read: |path| mdp_model(&path.with_file_name("m.tra")),
    ..TEXT
};

/// A file beside the transitions of Storm.
const STORM: Reader = Reader { beside: || vec![("m.tra", data("forest-storm.tra"))], ..PRISM };

/// A model in compressed JSON.
const COMPRESSED: Reader = Reader {
    file: "m.json",
    made: || vec![fs::read(root().join("tests/fuzz/corpus/compressed/two.json")).expect("a file of the corpus")],
    tokens: JSON,
    memory: PACKED,
    // As a stream, which no other thread decompresses.
    read: |path| {
        let file = File::open(path).expect("the input");
        let read = mdp::io::read_from(file, &path.display().to_string(), &mdp::io::ReadOptions::default());
        outcome(read, |model| same_mdp(&model))
    },
    ..TEXT
};

impl Reader {
    /// Makes a folder with the files beside the mutated one.
    pub fn prepare(&self, folder: &Path) {
        fs::create_dir_all(folder.join(AGAIN)).expect("the folder can be made");
        for (name, bytes) in (self.beside)() {
            fs::write(folder.join(name), bytes).expect("the folder can be written");
        }
    }

    /// The files that are mutated, before they are wrapped.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let folder = root().join("tests/fuzz/corpus").join(self.name);
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .map(|entry| entry.expect("a file of the corpus").path())
            .collect();
        paths.sort();
        let own = paths.iter().map(|path| fs::read(path).expect("a file of the corpus"));
        own.chain(self.data.iter().map(|name| data(name))).chain((self.made)()).collect()
    }
}

/// The folder, beside the input, of a model that is written again.
const AGAIN: &str = "again";

/// The root of the repository.
fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("tests/fuzz/corpus").is_dir()).expect("the corpus is in the repository")
}

fn data(name: &str) -> Vec<u8> {
    fs::read(root().join("data").join(name)).expect("a file of the data")
}

/// The error of a read in words, or the check of what it returns.
fn outcome<T: 'static>(read: Result<T, impl Display>, check: impl FnOnce(T) + 'static) -> Read {
    match read {
        Ok(found) => Ok(Box::new(move || check(found))),
        Err(error) => Err(error.to_string()),
    }
}

/// The path of the file that is written again.
fn again(path: &Path) -> PathBuf {
    path.with_file_name(AGAIN).join(path.file_name().expect("a file"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn mdp_model(path: &Path) -> Read {
    let own = again(path);
    outcome(mdp::io::read(path), move |model| {
        same_mdp(&model);
        // Not every format has a place for every part of a model.
        if mdp::io::write(&own, &model).is_ok()
            && let Err(error) = mdp::io::read(&own)
        {
            panic!("a written model is refused: {error}");
        }
    })
}

/// JSON has a place for all parts of a model.
fn same_mdp(model: &Mdp) {
    let written = |model: &Mdp| {
        let mut out = Vec::new();
        mdp::io::write_json(&mut out, model).expect("memory can be written");
        out
    };
    let first = written(model);
    let read = mdp::io::read_json(&first[..], "written");
    let read = read.unwrap_or_else(|error| panic!("a written model is refused: {error}\n{}", text(&first)));
    assert_eq!(text(&written(&read)), text(&first));
}

fn mdp_parts(path: &Path) -> Read {
    use mdp::model::Whole;

    let parts = match mdp::io::open_parts(path, &mdp::io::ReadOptions::default()) {
        Ok(Some(parts)) => parts,
        Ok(None) => return Err(format!("{}: not a plain file of safetensors", path.display())),
        Err(error) => return Err(error.to_string()),
    };
    let rows = parts.rows(0..parts.states()).map(drop).map_err(|error| error.to_string());
    rows.map(|()| Box::new(|| ()) as Box<dyn FnOnce()>)
}

/// A model with names, for policies.
static REPLACEMENT: LazyLock<Mdp> =
    LazyLock::new(|| mdp::io::read(&root().join("data/replacement.json")).expect("a valid model"));

fn mdp_policy(path: &Path) -> Read {
    outcome(mdp::io::read_policy(path, &REPLACEMENT), |policy| {
        assert!(policy.len().is_multiple_of(6) && policy.iter().all(|&action| action < 2), "{policy:?}");
    })
}

fn solution(path: &Path) -> Read {
    outcome(mdp::io::SolutionFile::read(path), |solution| {
        assert_eq!(solution.policy.len(), solution.values.len());
        (0..solution.values.len()).for_each(|row| drop(solution.place(row)));
    })
}

fn values(path: &Path) -> Read {
    let _ = mdp::io::read_values_of(path, 1..2, 3);
    outcome(mdp::io::read_values(path), |values| assert!(values.iter().all(|value| value.is_finite())))
}

/// Models with all parts, written in a format.
fn written(name: &str) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let bytes = |file: &str| {
        let model = mdp::io::read(&root().join("tests/fuzz/corpus/mdp-json").join(file)).expect("a valid model");
        mdp::io::write(&path, &model).expect("the model can be written");
        fs::read(&path).expect("the written file")
    };
    ["everything.json", "list.json", "tables.json"].map(bytes).into()
}

/// A NumPy array of numbers of 64 bits.
fn array(descr: &str, shape: &[usize], numbers: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    npy::write_header(&mut out, descr, shape).expect("memory can be written");
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    out
}

/// P of two actions and two states.
fn cube() -> Vec<Vec<u8>> {
    vec![array("<f8", &[2, 2, 2], &[0.5, 0.5, 0.0, 1.0, 1.0, 0.0, 0.25, 0.75].map(f64::to_bits))]
}

/// An archive with this array P.
fn npz(array: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut archive = Members::new(&mut out);
    let members = archive.add("P", |out| out.write_all(array)).and_then(|()| archive.array::<f64>("R", &[1.0, -2.5]));
    members.and_then(|()| archive.finish()).expect("memory can be written");
    out
}

/// The files of an archive of UMB, with their headers.
fn umb_files() -> Vec<(tar::Header, Vec<u8>)> {
    let mut bytes = Vec::new();
    let packed = data("walk.umb");
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("a valid archive");
    let mut archive = tar::Archive::new(&bytes[..]);
    let files = archive.entries().expect("a valid archive").map(|entry| {
        let (mut entry, mut content) = (entry.expect("a valid file"), Vec::new());
        entry.read_to_end(&mut content).expect("a valid file");
        (entry.header().clone(), content)
    });
    files.collect()
}

fn is_index(header: &tar::Header) -> bool {
    *header.path_bytes() == *b"index.json"
}

/// An archive of UMB with this index.
fn umb(index: &[u8]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (mut header, content) in umb_files() {
        let content = if is_index(&header) { index } else { &content[..] };
        header.set_size(content.len() as u64);
        header.set_cksum();
        archive.append(&header, content).expect("memory can be written");
    }
    archive.into_inner().expect("memory can be written")
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory can be written")
}

fn xz(text: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).expect("valid options");
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory can be written")
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

fn mdp_checkpoints() -> Vec<Vec<u8>> {
    let (mdp, problem) = (&*REPLACEMENT, problem());
    let proposal = mdp::checkpoint::Proposal { values: Some(vec![0.5; 6]), ..Default::default() };
    let proposed = proposal.contents(&problem, mdp::checkpoint::hash(mdp));
    let mut discounted = proposed.clone();
    for (key, value) in [
        ("method", "serial"),
        ("in_f64", "true"),
        ("rule", "epsilon"),
        ("target", "0.01"),
        ("fraction", "0.5"),
        ("by_span", "false"),
        ("shift_span", "inf"),
        ("round.sweeps", "3"),
        ("round.backward", "false"),
        ("round.trial", "inf"),
        ("solved", "false"),
    ] {
        discounted.set(key, value);
    }
    vec![bytes(&proposed), bytes(&discounted)]
}

/// The problem of [`REPLACEMENT`], as checkpoints name it.
fn problem() -> String {
    format!("discounted, gamma {}, {}", REPLACEMENT.gamma(), REPLACEMENT.objective())
}

fn bytes(contents: &Contents) -> Vec<u8> {
    let mut out = Vec::new();
    contents.write(&mut out).expect("memory can be written");
    out
}

fn mdp_checkpoint(path: &Path) -> Read {
    let mdp = &*REPLACEMENT;
    let _ = mdp::checkpoint::Checkpoint::open(path, mdp, mdp::checkpoint::hash(mdp));
    outcome(mdp::checkpoint::Proposal::read(path, mdp, &problem()), |proposal| {
        assert!(proposal.values.is_none_or(|values| values.len() == 6));
    })
}

/// A model for policies and checkpoints.
static TIGER: LazyLock<Pomdp> = LazyLock::new(|| pomdp::generate::Tiger::default().generate().expect("a valid model"));

fn tiger() -> Vec<Vec<u8>> {
    vec![pomdp_json(&TIGER)]
}

fn pomdp_json(model: &Pomdp) -> Vec<u8> {
    let mut out = Vec::new();
    pomdp::io::write_to(&mut out, pomdp::io::Format::Json, model).expect("memory can be written");
    out
}

fn pomdp_model(path: &Path) -> Read {
    outcome(pomdp::io::read(path, None), |model| {
        let first = pomdp_json(&model);
        let read = pomdp::io::read_from(&first[..], "written", Some(pomdp::io::Format::Json));
        let read = read.unwrap_or_else(|error| panic!("a written model is refused: {error}\n{}", text(&first)));
        assert_eq!(text(&pomdp_json(&read)), text(&first));
        for format in [pomdp::io::Format::Pomdp, pomdp::io::Format::Pomdpx, pomdp::io::Format::PomdpxDd] {
            let mut out = Vec::new();
            if pomdp::io::write_to(&mut out, format, &model).is_ok()
                && let Err(error) = pomdp::io::read_from(&out[..], "written", Some(format))
            {
                panic!("a written model is refused: {error}\n{}", text(&out));
            }
        }
    })
}

/// Whether a text may declare a set of 32 elements or more. A short text in these formats may declare a model of 2²⁸ entries: the tests
/// of memory read such texts.
fn declares_much(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._+-".contains(byte);
    text.split(|byte| !is_part(byte)).any(|word| {
        let number = str::from_utf8(word).ok().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        number.and_then(|number| number.parse::<u64>().ok()).is_some_and(|number| (32..=1 << 28).contains(&number))
    })
}

fn vectors(path: &Path) -> Read {
    let _ = pomdp::io::read_vectors(path, None, None);
    outcome(pomdp::io::read_vectors(path, None, Some(&*TIGER)), |vectors: AlphaVectors| {
        let mut out = Vec::new();
        let policy = pomdp::io::Policy { vectors: &vectors, model: None, name: "m", stages: &[], support: None };
        pomdp::io::write_policy_to(&mut out, pomdp::io::Format::Alpha, policy).expect("memory can be written");
        let read = pomdp::io::read_vectors_from(&out[..], "written", Some(pomdp::io::Format::Alpha), None);
        assert_eq!(read.expect("written vectors are read"), vectors);
    })
}

fn controller(path: &Path) -> Read {
    outcome(pomdp::io::read_policy(path, None, &TIGER, None), |_| ())
}

fn pomdp_checkpoint() -> Vec<u8> {
    let model = &*TIGER;
    let (states, actions, observations) = (model.states(), model.actions(), model.observation_count());
    let mut contents = Contents::new("pomdp", pomdp::checkpoint::hash(model));
    for key in ["iterations", "backups", "seconds", "upper", "slack.below", "slack.above"] {
        contents.set(key, 1);
    }
    contents.put("actions", (0..actions).collect::<Vec<u32>>());
    contents.put("vectors", vec![-1.5_f64; (actions * states) as usize]);
    // Blind policies go on with themselves.
    contents.put("next", (0..actions).flat_map(|action| vec![action; observations as usize]).collect::<Vec<u32>>());
    for name in ["points", "beliefs"] {
        contents.put(&format!("{name}.length"), vec![2_u64, 1]);
        contents.put(&format!("{name}.states"), vec![0_u32, 1, 1]);
        contents.put(&format!("{name}.probs"), vec![0.25_f64, 0.75, 1.0]);
    }
    contents.put("points.upper", vec![2.0_f64, 3.0]);
    for name in ["seconds", "lower", "upper"] {
        contents.put(&format!("rounds.{name}"), vec![0.5_f64]);
    }
    for name in ["iterations", "backups", "beliefs", "vectors"] {
        contents.put(&format!("rounds.{name}"), vec![1_u64]);
    }
    bytes(&contents)
}

/// Models for sequences: of three symbols, of letters, and of vectors with two components.
static ICE_CREAM: LazyLock<Hmm> = LazyLock::new(|| hmm::generate::IceCream.generate().expect("a valid model"));
static DNA: LazyLock<Hmm> = LazyLock::new(|| {
    let mut parts: HmmParts = uniform(hmm::generate::Kind::Symbols(4)).into_parts();
    parts.names.symbols = ["A", "C", "G", "T"].map(str::to_owned).to_vec();
    parts.validated().expect("a valid model")
});
static PLANE: LazyLock<Hmm> = LazyLock::new(|| uniform(hmm::generate::Kind::Vectors { dimensions: 2, full: false }));

fn uniform(kind: hmm::generate::Kind) -> Hmm {
    hmm::generate::Uniform { states: 2, kind, ends: false, seed: 1 }.generate().expect("a valid model")
}

fn hmm_model(path: &Path) -> Read {
    outcome(hmm::io::read(path, None), |model| {
        for format in hmm::io::Format::ALL {
            if *format == hmm::io::Format::Npz || hmm::io::holds(*format, &model).is_err() {
                continue;
            }
            let mut out = Vec::new();
            hmm::io::write_to(&mut out, *format, &model).expect("memory can be written");
            let read = hmm::io::read_from(&out[..], "written", Some(*format));
            let read = read.unwrap_or_else(|error| panic!("a written model is refused: {error}\n{}", text(&out)));
            // UMDHMM has no names.
            assert!(*format != hmm::io::Format::Json || read == model, "{}", text(&out));
        }
    })
}

fn beliefs(path: &Path) -> Read {
    outcome(hmm::io::beliefs::read(path), |(beliefs, names)| {
        let mut out = Vec::new();
        hmm::io::beliefs::write_to(&mut out, &beliefs, &names).expect("memory can be written");
        let read = hmm::io::beliefs::read_from(&out[..], "written");
        let read = read.unwrap_or_else(|error| panic!("a written posterior is refused: {error}\n{}", text(&out)));
        assert!(read == (beliefs, names), "{}", text(&out));
    })
}

fn hmm_archives() -> Vec<Vec<u8>> {
    let full = uniform(hmm::generate::Kind::Vectors { dimensions: 2, full: true });
    let archive = |model: &Hmm| {
        let mut out = Vec::new();
        hmm::io::write_to(&mut out, hmm::io::Format::Npz, model).expect("memory can be written");
        out
    };
    [&*ICE_CREAM, &*PLANE, &full].map(archive).into()
}

fn symbols(path: &Path) -> Read {
    observed(path, None, &ICE_CREAM)
}

/// Reads sequences of a model, whatever happens to missing observations.
fn observed(path: &Path, lengths: Option<&Path>, model: &'static Hmm) -> Read {
    let read = |missing: Missing| {
        let options = ReadOptions { lengths: lengths.map(Path::to_owned), missing, ..ReadOptions::default() };
        sequences::read_with(path, &options, model)
    };
    for &missing in Missing::ALL.iter().filter(|&&missing| missing != Missing::Refuse) {
        let _ = read(missing);
    }
    outcome(read(Missing::Refuse), move |records| {
        let mut out = Vec::new();
        sequences::write_to(&mut out, sequences::Format::Csv, &records.sequences, model)
            .expect("memory can be written");
        let read = sequences::read_from(&out[..], "written", Some(sequences::Format::Csv), model);
        let read = read.unwrap_or_else(|error| panic!("written sequences are refused: {error}\n{}", text(&out)));
        assert_eq!(read, records.sequences);
    })
}

/// Reads the known states of a sequence.
fn states(path: &Path) -> Read {
    outcome(sequences::read_states(path, diary(), &ICE_CREAM), |known| {
        let again = diary().with_states(known.states().to_vec());
        assert!(known.states().is_empty() || again == Ok(known));
    })
}

/// Reads the weight of a sequence.
fn weights(path: &Path) -> Read {
    outcome(sequences::read_weights(path, diary()), |weighted| assert!(weighted.weight(0) > 0.0))
}

/// Reads classes of transitions.
fn tied_transitions(path: &Path) -> Read {
    outcome(sequences::read_tied_transitions(path, &ICE_CREAM), |ties| {
        assert_eq!(ties.len(), ICE_CREAM.transitions().len());
        let _ = ICE_CREAM.clone().with_tied_transitions(&ties);
    })
}

/// The sequence of a training.
fn diary() -> Sequences {
    Sequences::new(vec![0, 3], Observations::Symbols(vec![1, 2, 2])).expect("valid sequences")
}

fn hmm_checkpoint() -> Vec<u8> {
    let model = ICE_CREAM.clone();
    let hash = hmm::checkpoint::hash(std::slice::from_ref(&model), (&diary(), &[]));
    let (log_likelihoods, objectives) = (vec![-4.0, -3.5], vec![-4.0, -3.5]);
    let run = hmm::solution::Run { model, log_likelihoods, objectives, converged: false, fell: None };
    let checkpoint = hmm::checkpoint::Checkpoint { iteration: 1, runs: vec![run], seconds: 0.5 };
    bytes(&checkpoint.contents(&hmm::options::Options::default(), hash))
}

fn training(path: &Path) -> Read {
    let (models, options) = ([ICE_CREAM.clone()], hmm::options::Options::default());
    outcome(hmm::checkpoint::Checkpoint::read(path, &models, (&diary(), &[]), &options), |_| ())
}
