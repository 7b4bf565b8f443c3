//! Files of sequences: lines, tables, FASTA and arrays.

use std::fs;
use std::path::Path;

use warpkov_common::choice::FileFormat;
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::io::sequences::{self, Batches, Format, Header, Missing, ReadOptions, Records, Table};
use warpkov_hmm::model::{Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};

use super::common::{dna, models, npy};
use crate::channels::case;

/// End of the message for a missing value.
const HINT: &str = " (option missing selects a treatment)";

/// The error of reading `text` as sequences for a model.
fn said(model: &Hmm, format: sequences::Format, text: &str) -> String {
    match sequences::read_from(text.as_bytes(), "d", Some(format), model) {
        Ok(sequences) => format!("{sequences:?}"),
        Err(error) => error.to_string(),
    }
}

/// A Gaussian model of vectors with `dimensions` components.
fn numbers(dimensions: u32) -> Hmm {
    let kind = Kind::Vectors { dimensions, full: false };
    Uniform { states: 2, kind, ends: false, seed: 1 }.generate().unwrap()
}

/// Reads `text` as a table.
fn table(model: &Hmm, text: &str, table: &Table, missing: Missing) -> Result<Records, String> {
    let format = Some(sequences::Format::Csv);
    let options = ReadOptions { format, lengths: None, table: table.clone(), missing };
    sequences::read_from_with(text.as_bytes(), "d", &options, model).map_err(|error| error.to_string())
}

/// The numbers of a table and the offsets of its sequences.
#[track_caller]
fn values(model: &Hmm, text: &str, asked: &Table) -> (Vec<f64>, Vec<u64>) {
    let sequences = table(model, text, asked, Missing::Refuse).unwrap().sequences;
    match sequences.observations() {
        Observations::Vectors { values, .. } => (values.clone(), sequences.offsets().to_vec()),
        Observations::Symbols(symbols) => {
            (symbols.iter().copied().map(f64::from).collect(), sequences.offsets().to_vec())
        }
    }
}

fn columns(names: &[&str], id: Option<&str>) -> Table {
    let columns = names.iter().map(|&name| name.to_owned()).collect();
    Table { columns, id: id.map(str::to_owned), ..Table::default() }
}

#[test]
fn sequences_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    for model in models() {
        let drawn = sample(&model, 5, Some(9), 3).unwrap().sequences;
        let vectors = matches!(model.emissions(), Emissions::Gaussian { .. });
        let letters = model.names().symbols.iter().any(|name| name == "A");
        for format in
            [sequences::Format::Npy, sequences::Format::Lines, sequences::Format::Csv, sequences::Format::Fasta]
        {
            let refused = match format {
                sequences::Format::Lines => vectors,
                // Eisner's symbols also have one character each.
                sequences::Format::Fasta => vectors,
                _ => false,
            };
            let path = folder.path().join(format!("data.{}", format.extensions()[0]));
            let lengths = folder.path().join("lengths.npy");
            let lengths = (format == sequences::Format::Npy).then_some(lengths.as_path());
            let written = sequences::write(&path, lengths, format, &drawn, &model);
            assert_eq!(written.is_err(), refused, "{format}, {letters}");
            if !refused {
                assert_eq!(sequences::read(&path, lengths, None, &model).unwrap(), drawn, "{format}");
            }
        }
    }
    let plain = HmmParts { names: Names::default(), ..dna().into_parts() }.validated().unwrap();
    let one = sample(&plain, 1, Some(30), 1).unwrap().sequences;
    let path = folder.path().join("one.seq");
    sequences::write(&path, None, sequences::Format::Umdhmm, &one, &plain).unwrap();
    assert_eq!(sequences::read(&path, None, None, &plain).unwrap(), one);
    assert!(fs::read_to_string(&path).unwrap().starts_with("T= 30\n"));
}

#[test]
fn a_line_without_blanks_has_one_letter_per_symbol() {
    use sequences::Format::Lines;
    let named = |names: &[&str]| {
        let mut parts = dna().into_parts();
        parts.names.symbols = names.iter().map(|&name| name.to_owned()).collect();
        parts.validated().unwrap()
    };
    let read = |model: &Hmm, text: &str, missing| {
        let options = ReadOptions { format: Some(Lines), missing, ..ReadOptions::default() };
        sequences::read_from_with(text.as_bytes(), "d", &options, model).map(|records| records.sequences)
    };
    let symbols = |model: &Hmm, text: &str| match read(model, text, Missing::Marginalise).unwrap().observations() {
        Observations::Symbols(symbols) => symbols.clone(),
        Observations::Vectors { .. } => Vec::new(),
    };
    let dna = dna();
    assert_eq!(read(&dna, "ACGT\nA C G T\nT\n", Missing::Refuse).unwrap().offsets(), [0, 4, 8, 9]);
    assert_eq!(symbols(&dna, "ACGT\nA C\nG,T\n\"T\"\n"), [0, 1, 2, 3, 0, 1, 2, 3, 3]);
    assert_eq!(symbols(&named(&["α", "β", "γ", "δ"]), "αδ\n"), [0, 3]);
    // A word of a line with several words is one symbol, and so is a word in quotes.
    let expected = "expected one of the symbols A, C, G and T";
    assert_eq!(said(&dna, Lines, "A CG\n"), format!("d:1: sequence 1, position 2: found \"CG\", {expected}"));
    assert_eq!(said(&dna, Lines, "\"CG\"\n"), format!("d:1: sequence 1, position 1: found \"CG\", {expected}"));
    assert_eq!(said(&dna, Lines, "C\nAXT\n"), format!("d:2: sequence 2, position 2: found \"X\", {expected}"));
    // Letters may be missing; a marker of several letters is one missing observation, unless all letters are symbols.
    assert_eq!(symbols(&dna, "A?T\nNA\nnan\n"), [0, 4, 3, 4, 4]);
    assert_eq!(symbols(&named(&["A", "R", "N", "D"]), "NA\nA NA\n"), [2, 0, 0, 4]);
    // Names of several letters, and numbers, need blanks.
    assert!(read(&named(&["A", "C", "G", "TT"]), "ACG\n", Missing::Refuse).is_err());
    let plain = HmmParts { names: Names::default(), ..dna.into_parts() }.validated().unwrap();
    assert!(read(&plain, "0123\n", Missing::Refuse).is_err());
}

#[test]
fn invalid_sequences_are_reported() {
    use sequences::Format::{Csv, Fasta, Lines, Npy, Umdhmm};
    let (dna, plain) = (dna(), HmmParts { names: Names::default(), ..dna().into_parts() }.validated().unwrap());
    let numbers = Uniform { states: 2, kind: Kind::Vectors { dimensions: 1, full: false }, ends: false, seed: 1 };
    let numbers = numbers.generate().unwrap();
    let expected = "expected one of the symbols A, C, G and T";
    assert_eq!(said(&dna, Lines, "A C\nG X T\n"), format!("d:2: sequence 2, position 2: found \"X\", {expected}"));
    assert_eq!(said(&dna, Lines, "A C\n0\n"), format!("d:2: sequence 2, position 1: found \"0\", {expected}"));
    assert_eq!(said(&dna, Lines, "A\n\nC\n"), "d:2: sequence 2 is empty");
    assert_eq!(said(&dna, Lines, ""), "d:1: sequence 1 is empty");
    let expected = "expected a symbol number below 4";
    assert_eq!(said(&plain, Lines, "0,1 2\n3 4\n"), format!("d:2: sequence 2, position 2: found \"4\", {expected}"));
    assert_eq!(said(&plain, Lines, "-1"), format!("d:1: sequence 1, position 1: found \"-1\", {expected}"));
    let expected = "expected a finite number";
    assert_eq!(
        said(&numbers, Lines, "1.5 nan"),
        format!("d:1: sequence 1, position 2: found \"nan\", {expected}{HINT}")
    );
    assert_eq!(
        said(&dna, Fasta, ">a\nACGT\n>b\nacNt\n"),
        format!(
            "d:4: record b, position 3: found \"N\", which is A or C or G or T, expected one of the symbols A, C, G and T{HINT}"
        )
    );
    assert_eq!(said(&dna, Fasta, ">a\n>b\nA\n"), "d:2: record a has no letters");
    assert_eq!(said(&dna, Fasta, "ACGT\n"), "d:1: expected a record line, which begins with >, before the letters");
    assert_eq!(said(&numbers, Fasta, ">a\nA\n"), "d:1: the model has no named symbols that letters could stand for");
    let csv = "sequence,symbol\n1,A\n1,C\n2,G\n";
    assert!(said(&dna, Csv, csv).contains("offsets: [0, 2, 3]"), "{}", said(&dna, Csv, csv));
    assert!(said(&dna, Csv, "symbol\nA\nC\n").contains("offsets: [0, 2]"));
    assert_eq!(said(&dna, Csv, "sequence,symbol\n1,A,C\n"), "d:2: found 3 columns, expected 2 as in the header");
    assert_eq!(
        said(&dna, Csv, "sequence,x,y\n"),
        "d:1: found 2 columns beside the ids, expected 1 for an observation of the model (option columns selects them)"
    );
    assert_eq!(said(&dna, Csv, "sequence,symbol\n"), "d:1: the table has no rows after the header");
    assert_eq!(said(&dna, Csv, ""), "d:1: the table is empty");
    assert_eq!(said(&plain, Umdhmm, "T= 2\n1 5\n"), "d: sequence 1, position 2: found symbol 4, expected one below 4");
    assert_eq!(said(&plain, Umdhmm, "T= 2\n1 0\n"), "d:2: found \"0\", expected a symbol number from 1");
    assert!(said(&plain, Npy, "xxxxxxxxxxxx").starts_with("d: is not a NumPy array"));
}

#[test]
fn tables_keep_their_first_row() {
    let (one, two, dna) = (numbers(1), numbers(2), dna());
    let plain = Table::default();
    // Without and with a header, and with both kinds of line ends.
    assert_eq!(values(&one, "1.5\n-2\n3e-3\n", &plain), (vec![1.5, -2.0, 3e-3], vec![0, 3]));
    assert_eq!(values(&one, "x\r\n1.5\r\n-2\r\n", &plain), (vec![1.5, -2.0], vec![0, 2]));
    assert_eq!(values(&two, "\"x\",\"y, m\"\n1,2\n\n3,4", &plain), (vec![1.0, 2.0, 3.0, 4.0], vec![0, 2]));
    assert_eq!(values(&two, "1;2\n3;4\n", &plain), (vec![1.0, 2.0, 3.0, 4.0], vec![0, 2]));
    assert_eq!(values(&two, "a\tb\n3\t4\n", &plain), (vec![3.0, 4.0], vec![0, 1]));
    assert_eq!(values(&one, "\u{feff}1.5\n2\n", &plain), (vec![1.5, 2.0], vec![0, 2]));
    assert_eq!(values(&one, "\u{feff}\"x\"\n2\n", &columns(&["x"], None)), (vec![2.0], vec![0, 1]));
    assert_eq!(values(&dna, "A\nC\n", &plain), (vec![0.0, 1.0], vec![0, 2]));
    let guessed = table(&dna, "base\nC\n", &plain, Missing::Refuse).unwrap();
    assert_eq!(guessed.notes, ["d: line 1 is read as a header with base (option header overrides this)"]);
    assert!(table(&dna, "sequence,base\nx,C\n", &plain, Missing::Refuse).unwrap().notes.is_empty());
    // A field that begins like a number is not a column name. Explicit options take precedence.
    let error = |text: &str, asked: &Table| table(&one, text, asked, Missing::Refuse).unwrap_err();
    assert_eq!(
        error("1,5\n2\n", &Table { separator: Some(b';'), ..plain.clone() }),
        "d:1: column 1: found \"1,5\", expected a finite number (option header: yes, if this is one)"
    );
    assert_eq!(
        error("inf\n2\n", &plain),
        "d:1: column 1: found \"inf\", expected a finite number (option header: yes, if this is one)"
    );
    assert_eq!(error("NA\n2\n", &plain), format!("d:1: column 1: found \"NA\", expected a finite number{HINT}"));
    let with = |header| Table { header, ..plain.clone() };
    assert_eq!(values(&one, "0\n1.5\n", &with(Header::Yes)), (vec![1.5], vec![0, 1]));
    assert_eq!(error("x\n1.5\n", &with(Header::No)), "d:1: column 1: found \"x\", expected a finite number");
}

#[test]
fn tables_from_other_programs_are_read() {
    let (one, two) = (numbers(1), numbers(2));
    let text = "Date,\"price, USD\",note,volume,station\n\
        2024-01-02, 1.5 ,\"a \"\"quoted\"\"\nnote\",10,b\n\
        2024-01-03,2.5,NA,20,a\n\
        2024-01-04,3.5,,30,b\n";
    assert_eq!(values(&two, text, &columns(&["volume", "price, USD"], None)).0, [10.0, 1.5, 20.0, 2.5, 30.0, 3.5]);
    assert_eq!(values(&two, text, &columns(&["4", "2"], None)).0, [10.0, 1.5, 20.0, 2.5, 30.0, 3.5]);
    // Rows with the same id form one sequence. Sequences have the order of the first appearance of their ids.
    let records = table(&one, text, &columns(&["volume"], Some("station")), Missing::Refuse).unwrap();
    assert_eq!((records.sequences.offsets(), records.names), (&[0, 2, 3][..], vec!["b".to_owned(), "a".to_owned()]));
    assert_eq!(values(&one, text, &columns(&["volume"], Some("5"))).0, [10.0, 30.0, 20.0]);
    assert_eq!(values(&one, "sequence,x\na,1\nb,2\na,3\n", &Table::default()), (vec![1.0, 3.0, 2.0], vec![0, 2, 3]));
    let error = |text: &str, asked: &Table| table(&one, text, asked, Missing::Refuse).unwrap_err();
    assert_eq!(
        error(text, &columns(&["prize"], None)),
        "d:1: there is no column prize: the header has Date, price, USD, note, volume, station"
    );
    assert_eq!(error("1,2\n3,4\n", &columns(&["7"], None)), "d:1: there is no column 7: the rows have 2");
    assert_eq!(error("x,x\n3,4\n", &columns(&["x"], None)), "d:1: 2 columns are called x");
    assert_eq!(
        error("x,y\n1,2\n", &Table::default()),
        "d:1: found 2 columns, expected 1 for an observation of the model (option columns selects them)"
    );
    assert_eq!(
        error("x,y\n1,2\n", &columns(&["x", "y"], None)),
        "d:1: found 2 columns named, expected 1 for an observation of the model"
    );
    // Error positions refer to lines of the file, also after a field with several lines.
    assert_eq!(
        error(&text.replace(",30,", ",thirty,"), &columns(&["volume"], None)),
        "d:5: column 4 (volume): found \"thirty\", expected a finite number"
    );
    assert_eq!(
        error(&text.replace(",20,", ",n/a,"), &columns(&["volume"], None)),
        format!("d:4: column 4 (volume): found \"n/a\", expected a finite number{HINT}")
    );
    assert_eq!(error("x,y\n1,2\n\n3\n", &columns(&["x"], None)), "d:4: found 1 columns, expected 2 as in the header");
    assert_eq!(
        error("x,id\n1,a\n2,\n", &columns(&["x"], Some("id"))),
        "d:3: column 2 (id): found \"\", expected the id of a sequence"
    );
    assert_eq!(error("x,y\n1,2\n3,\"4\n5,6\n", &columns(&["x"], None)), "d:3: a field in quotes does not end");
    let lines =
        ReadOptions { format: Some(sequences::Format::Lines), table: columns(&["x"], None), ..ReadOptions::default() };
    let refused = sequences::read_from_with(&b"1"[..], "d", &lines, &one).unwrap_err().to_string();
    assert_eq!(refused, "d: columns, ids, separators and headers apply only to tables, and this is lines");
}

#[test]
fn missing_values_split_skip_or_are_summed_over() {
    let (two, dna) = (numbers(2), dna());
    let text = "sequence,x,y\na,1,2\nb,5,6\na,NA,3\na,4,5\nb,,\n";
    let split = table(&two, text, &Table::default(), Missing::Split).unwrap();
    assert_eq!(
        (split.sequences.offsets(), &split.names, &split.starts),
        (&[0, 1, 2, 3][..], &["a", "a", "b"].map(str::to_owned).to_vec(), &vec![0, 2, 0])
    );
    assert_eq!(split.notes, ["d: 2 missing observations split 2 sequences into 3"]);
    let skip = table(&two, text, &Table::default(), Missing::Skip).unwrap();
    assert_eq!((skip.sequences.offsets(), &skip.positions), (&[0, 2, 3][..], &vec![0, 2, 0]));
    assert_eq!(skip.positions(0).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(split.positions(1).collect::<Vec<_>>(), [2]);
    for records in [split, skip] {
        let Observations::Vectors { values, .. } = records.sequences.observations() else { panic!("vectors") };
        assert_eq!(values[..], [1.0, 2.0, 4.0, 5.0, 5.0, 6.0]);
    }
    let summed = table(&two, text, &Table::default(), Missing::Marginalise).unwrap();
    let Observations::Vectors { values, .. } = summed.sequences.observations() else { panic!("vectors") };
    let shown: Vec<String> = values.iter().map(|x| x.to_string()).collect();
    assert_eq!(shown, ["1", "2", "NaN", "3", "4", "5", "5", "6", "NaN", "NaN"]);
    assert_eq!((summed.sequences.offsets(), summed.sequences.partial()), (&[0, 3, 5][..], 2));
    assert_eq!(summed.notes, ["d: 3 missing numbers of 2 observations are integrated out"]);
    assert_eq!(table(&two, "x,y\nNA,1\n", &Table::default(), Missing::Skip).unwrap_err(), "d: there is no sequence");
    let summed = table(&dna, "A\nNA\nT\n", &Table::default(), Missing::Marginalise).unwrap();
    assert_eq!(
        (summed.sequences.observations(), &summed.sets),
        (&Observations::Symbols(vec![0, 4, 3]), &vec![vec![0, 1, 2, 3]])
    );
    let extended = summed.extended(&dna);
    let Emissions::Categorical { symbols: 5, probs } = extended.emissions() else { panic!("symbols") };
    assert_eq!((probs[4], probs[9]), (1.0, 1.0));
    // A vector cannot be a set of symbols.
    let plain = HmmParts { names: Names::default(), ..dna.clone().into_parts() }.validated().unwrap();
    let error = table(&plain, "0\nNA\n4\n", &Table::default(), Missing::Marginalise).unwrap_err();
    assert_eq!(error, "d:3: column 1: found \"4\", expected a symbol number below 4");
    // NumPy has NaN.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.npy");
    fs::write(&path, npy("<f8", "(5,)", &[1.0, f64::NAN, f64::NAN, 2.0, 0.0].map(f64::to_le_bytes).concat())).unwrap();
    let options = |missing| ReadOptions { missing, ..ReadOptions::default() };
    let parts = sequences::read_with(&path, &options(Missing::Split), &plain).unwrap();
    assert_eq!((parts.sequences.offsets(), parts.starts), (&[0, 1, 3][..], vec![0, 3]));
    let parts = sequences::read_with(&path, &options(Missing::Split), &numbers(1)).unwrap();
    assert_eq!(parts.sequences.offsets(), [0, 1, 3]);
}

#[test]
fn fasta_has_more_than_four_letters() {
    let dna = dna();
    let read = |text: &str, missing| {
        let options = ReadOptions { format: Some(sequences::Format::Fasta), missing, ..ReadOptions::default() };
        sequences::read_from_with(text.as_bytes(), "d", &options, &dna).map_err(|error| error.to_string())
    };
    let text = ">chr1 a description\nACgt\n; a comment\nnnR-U\n>\nT T\n";
    let records = read(text, Missing::Marginalise).unwrap();
    assert_eq!(records.names, ["chr1", "2"]);
    assert_eq!(*records.sequences.observations(), Observations::Symbols(vec![0, 1, 2, 3, 4, 4, 5, 4, 3, 3, 3]));
    assert_eq!(records.sets, [vec![0, 1, 2, 3], vec![0, 2]]);
    let extended = records.extended(&dna);
    let (Emissions::Categorical { probs: all, .. }, Emissions::Categorical { probs, .. }) =
        (extended.emissions(), dna.emissions())
    else {
        panic!("symbols")
    };
    assert_eq!((all[4], all[5], all[11]), (1.0, probs[0] + probs[2], probs[4] + probs[6]));
    let records = read(text, Missing::Split).unwrap();
    assert_eq!((records.names, records.starts), (["chr1", "chr1", "2"].map(str::to_owned).to_vec(), vec![0, 8, 0]));
    let expected = "expected one of the symbols A, C, G and T";
    let error = |text: &str| read(text, Missing::Refuse).unwrap_err();
    assert_eq!(error(">x\nAC-\n"), format!("d:2: record x, position 3: found \"-\", a gap, {expected}{HINT}"));
    assert_eq!(error(">x\nAr\n"), format!("d:2: record x, position 2: found \"r\", which is A or G, {expected}{HINT}"));
    assert_eq!(error(">x\nAZ\n"), format!("d:2: record x, position 2: found \"Z\", {expected}"));
    assert!(read(">x\nAZ\n", Missing::Split).is_err());
    // Amino acids have their own ambiguity codes, and N is one of the acids.
    let protein = Uniform { states: 2, kind: Kind::Symbols(20), ends: false, seed: 1 }.generate().unwrap();
    let mut protein = protein.into_parts();
    protein.names.symbols = "ACDEFGHIKLMNPQRSTVWY".chars().map(String::from).collect();
    let protein = protein.validated().unwrap();
    let options =
        ReadOptions { format: Some(sequences::Format::Fasta), missing: Missing::Marginalise, ..ReadOptions::default() };
    let records = sequences::read_from_with(&b">p\nNRbx\n"[..], "d", &options, &protein).unwrap();
    assert_eq!(*records.sequences.observations(), Observations::Symbols(vec![11, 14, 20, 21]));
    assert_eq!((&records.sets[0], records.sets[1].len()), (&vec![2, 11], 20));
}

#[test]
fn names_with_separators_are_read_back() {
    let mut parts = dna().into_parts();
    parts.names.symbols = ["a,b", "two words", "a \"quote\"", "plain"].map(str::to_owned).to_vec();
    let model = parts.validated().unwrap();
    let drawn = sample(&model, 4, Some(20), 1).unwrap().sequences;
    for format in [sequences::Format::Csv, sequences::Format::Lines] {
        let mut text = Vec::new();
        sequences::write_to(&mut text, format, &drawn, &model).unwrap();
        assert_eq!(sequences::read_from(&text[..], "d", Some(format), &model).unwrap(), drawn, "{format}");
    }
    assert_eq!(said(&model, sequences::Format::Lines, "plain \"a,b"), "d:1: a name in quotes does not end");
}

#[test]
fn arrays_of_floats_hold_symbols_if_they_are_whole() {
    let plain = HmmParts { names: Names::default(), ..dna().into_parts() }.validated().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.npy");
    let read = |descr: &str, data: &[u8], count: usize| {
        fs::write(&path, npy(descr, &format!("({count}, 1)"), data)).unwrap();
        let read = sequences::read_with(&path, &ReadOptions::default(), &plain);
        read.map_err(|error| error.to_string().replace(&path.display().to_string(), "d"))
    };
    let doubles = [0.0, 3.0, 1.0].map(f64::to_le_bytes).concat();
    let records = read("<f8", &doubles, 3).unwrap();
    assert_eq!(*records.sequences.observations(), Observations::Symbols(vec![0, 3, 1]));
    assert_eq!(records.notes.len(), 1);
    assert!(records.notes[0].ends_with(": floating-point numbers are read as symbol numbers"));
    assert!(read("<f4", &[2.0f32, 0.0].map(f32::to_le_bytes).concat(), 2).is_ok());
    assert!(read("<i8", &[2i64, 0].map(i64::to_le_bytes).concat(), 2).unwrap().notes.is_empty());
    let error = |numbers: [f64; 2]| read("<f8", &numbers.map(f64::to_le_bytes).concat(), 2).unwrap_err();
    assert_eq!(error([0.0, 1.5]), "d: [1] is 1.5, expected a symbol number");
    assert_eq!(error([-1.0, 1.0]), "d: [0] is -1, expected a symbol number");
    assert_eq!(error([0.0, 4.0]), "d: sequence 1, position 2: found symbol 4, expected one below 4");
    assert_eq!(read("<f8", &doubles[..20], 3).unwrap_err(), "d: is truncated: it has 2 of 3 numbers");
    assert_eq!(read("<i4", &[], 3).unwrap_err(), "d: is truncated: it has 0 of 3 numbers");
}

#[test]
fn arrays_and_lengths_must_fit() {
    let folder = tempfile::tempdir().unwrap();
    let plain = HmmParts { names: Names::default(), ..dna().into_parts() }.validated().unwrap();
    let [data, lengths] = ["data.npy", "lengths.npy"].map(|name| folder.path().join(name));
    let drawn = sample(&plain, 3, Some(4), 1).unwrap().sequences;
    sequences::write(&data, Some(&lengths), sequences::Format::Npy, &drawn, &plain).unwrap();
    let more = sample(&plain, 4, Some(4), 1).unwrap().sequences;
    let other = folder.path().join("other.npy");
    sequences::write(&other, Some(&folder.path().join("four.npy")), sequences::Format::Npy, &more, &plain).unwrap();
    let error = sequences::read(&data, Some(&folder.path().join("four.npy")), None, &plain).unwrap_err().to_string();
    assert!(error.contains("the lengths sum to 16, expected the 12 observations of "), "{error}");
    let error = sequences::write(&data, None, sequences::Format::Npy, &drawn, &plain).unwrap_err().to_string();
    assert!(error.ends_with("several sequences in one array need a file of lengths"), "{error}");
    // One sequence, without lengths.
    assert_eq!(sequences::read(&data, None, None, &plain).unwrap().offsets(), [0, 12]);
    let small = Uniform { states: 2, kind: Kind::Symbols(1), ends: false, seed: 1 }.generate().unwrap();
    let error = sequences::read(&data, Some(&lengths), None, &small).unwrap_err().to_string();
    assert!(error.contains("expected one below 1"), "{error}");
    let vectors = Uniform { states: 2, kind: Kind::Vectors { dimensions: 2, full: false }, ends: false, seed: 1 };
    let error = sequences::read(&data, Some(&lengths), None, &vectors.generate().unwrap()).unwrap_err().to_string();
    assert!(error.ends_with("is of shape [12, 1], expected n × 2"), "{error}");
    let symbols = Observations::Vectors { dimensions: 1, values: vec![1.0] };
    let error = Sequences::new(vec![0, 1], symbols).unwrap().check(&plain).unwrap_err().to_string();
    assert_eq!(error, "the sequences hold numbers, expected symbols, which the model emits");
}

/// The columns of a table are those that a model of channels names, in any order, if the header has all of them.
#[test]
fn named_columns_are_found() {
    let (model, _) = case(1, 2, &["poisson"], &[1]);
    let mut parts = model.into_parts();
    if let Emissions::Channels(channels) = &mut parts.emissions {
        channels.names = vec!["rain".to_owned(), "a,b".to_owned()];
    }
    let model = parts.validated().unwrap();
    let read = |text: &str, header| values(&model, text, &Table { header, ..Table::default() });
    assert_eq!(read("time,\"a,b\",rain\n5,1,2\n6,3,4\n", Header::Auto), (vec![2.0, 1.0, 4.0, 3.0], vec![0, 2]));
    assert_eq!(read("x,y\n1,2\n", Header::Auto).0, [1.0, 2.0]);
    assert_eq!(read("1,2\n3,4\n", Header::No).0, [1.0, 2.0, 3.0, 4.0]);
    let drawn = sample(&model, 2, Some(3), 1).unwrap().sequences;
    let mut text = Vec::new();
    sequences::write_to(&mut text, sequences::Format::Csv, &drawn, &model).unwrap();
    assert!(text.starts_with(b"sequence,rain,\"a,b\"\n"), "{}", String::from_utf8_lossy(&text));
    assert_eq!(sequences::read_from(&text[..], "d", Some(sequences::Format::Csv), &model).unwrap(), drawn);
    let error = said(&model, sequences::Format::Csv, "rain,\"a,b\"\n1,2\n0.5,1\n");
    assert!(
        error.ends_with("sequence 1, position 2, column rain: found 0.5, expected a count, an integer of at least 0"),
        "{error}"
    );
}

/// The sequences and the names of all batches of a file.
fn in_batches(
    path: &Path,
    options: &ReadOptions,
    model: &Hmm,
    most: usize,
) -> Result<(Sequences, Vec<String>), String> {
    let mut batches = Batches::open(path, options, model).map_err(|error| error.to_string())?;
    let (mut offsets, mut all, mut names) = (vec![0], Observations::Symbols(Vec::new()), Vec::new());
    while let Some(records) = batches.next(most).map_err(|error| error.to_string())? {
        assert!((1..=most).contains(&records.sequences.len()));
        let before = offsets[offsets.len() - 1];
        offsets.extend(records.sequences.offsets()[1..].iter().map(|offset| before + offset));
        names.extend(records.names);
        match (&mut all, records.sequences.observations()) {
            (Observations::Symbols(all), Observations::Symbols(own)) => all.extend(own),
            (Observations::Vectors { values: all, .. }, Observations::Vectors { values, .. }) => all.extend(values),
            (all, own) => *all = own.clone(),
        }
    }
    Ok((Sequences::with_missing(offsets, all).unwrap(), names))
}

#[test]
fn batches_have_the_sequences_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..12_u64 {
        let kind = if seed % 2 == 0 {
            Kind::Symbols(4)
        } else {
            Kind::Vectors { dimensions: 1 + seed as u32 % 3, full: false }
        };
        let model = Uniform { states: 2, kind, ends: true, seed }.generate().unwrap();
        let model = match kind {
            Kind::Symbols(_) => {
                let names = Names { symbols: ["A", "C", "G", "T"].map(str::to_owned).into(), ..Names::default() };
                HmmParts { names, ..model.into_parts() }.validated().unwrap()
            }
            Kind::Vectors { .. } => model,
        };
        let sequences = sample(&model, 23, None, seed).unwrap().sequences;
        for (format, name) in [(Format::Lines, "s.txt"), (Format::Fasta, "s.fa"), (Format::Npy, "s.npy")] {
            if sequences::holds(format, &model, true).is_err() {
                continue;
            }
            let path = folder.path().join(name);
            let lengths = (format == Format::Npy).then(|| folder.path().join("lengths.npy"));
            sequences::write(&path, lengths.as_deref(), format, &sequences, &model).unwrap();
            let options = ReadOptions { lengths, ..ReadOptions::default() };
            let whole = sequences::read_with(&path, &options, &model).unwrap();
            for most in [1, 4, 23, 100] {
                let (found, names) = in_batches(&path, &options, &model, most).unwrap();
                assert_eq!((found, names), (whole.sequences.clone(), whole.names.clone()), "{name}, {most}");
            }
        }
    }
}

#[test]
fn faults_in_batches_have_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let model = Uniform { states: 2, kind: Kind::Symbols(2), ends: false, seed: 1 }.generate().unwrap();
    let said = |name: &str, text: &[u8], options: &ReadOptions| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let error = in_batches(&path, options, &model, 2).unwrap_err();
        error.replace(&folder.path().display().to_string(), "")
    };
    let plain = ReadOptions::default();
    let wrong = "/s.txt after sequence 2:4: sequence 2, position 2: found \"7\", expected a symbol number below 2";
    assert_eq!(said("s.txt", b"0 1\n1\n0\n0 7\n", &plain), wrong);
    // A blank line between sequences is an empty one; those at the end are none.
    assert_eq!(said("s.txt", b"0\n1\n\n0\n", &plain), "/s.txt after sequence 2:3: sequence 1 is empty");
    assert!(in_batches(&folder.path().join("s.txt"), &plain, &model, 100).is_err());
    fs::write(folder.path().join("s.txt"), "0\n1\n\n \n").unwrap();
    assert_eq!(in_batches(&folder.path().join("s.txt"), &plain, &model, 1).unwrap().0.len(), 2);
    assert!(!said("s.txt", b"", &plain).is_empty());
    assert!(said("s.csv", b"sequence,symbol\n0,1\n", &plain).contains("lines, FASTA and NumPy arrays"));
    let mut array = Vec::new();
    warpkov_common::io::npy::write(&mut array, &[0_i64, 1, 0]).unwrap();
    assert!(said("s.npy", &array, &plain).contains("file of the lengths"));
    let lengths = folder.path().join("l.npy");
    let mut text = Vec::new();
    warpkov_common::io::npy::write(&mut text, &[2_i64, 2]).unwrap();
    fs::write(&lengths, text).unwrap();
    let options = ReadOptions { lengths: Some(lengths), ..ReadOptions::default() };
    let few = "/s.npy: has 3 observations, expected those of all lengths, at least 4";
    assert_eq!(said("s.npy", &array, &options), few);
}
