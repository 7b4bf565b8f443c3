//! Models of the tests of formats, and arrays of NumPy.

use warpkov_hmm::generate::{IceCream, Kind, LeftRight, Uniform};
use warpkov_hmm::model::Hmm;

pub fn dna() -> Hmm {
    let model = Uniform { states: 2, kind: Kind::Symbols(4), ends: false, seed: 1 }.generate().unwrap();
    let mut parts = model.into_parts();
    parts.names.symbols = ["A", "C", "G", "T"].map(str::to_owned).to_vec();
    parts.validated().unwrap()
}

pub fn models() -> Vec<Hmm> {
    let vectors = |full| Kind::Vectors { dimensions: 3, full };
    let mut classed = dna().into_parts();
    classed.names.classes = ["island", ""].map(str::to_owned).to_vec();
    vec![
        IceCream.generate().unwrap(),
        classed.validated().unwrap(),
        dna(),
        Uniform { states: 3, kind: vectors(false), ends: true, seed: 2 }.generate().unwrap(),
        LeftRight { states: 4, jump: 2, kind: vectors(true), ends: false, seed: 3 }.generate().unwrap(),
    ]
}

/// A .npy file as NumPy writes it.
pub fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (header.len() as u16 + 1).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), b"\n", data].concat()
}
