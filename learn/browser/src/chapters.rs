//! The programs of each chapter, in the very files that its page shows.

use crate::strides::{Banks, Sectors};
use crate::{Program, Version};

macro_rules! files {
    ($($name:ident = $path:literal;)*) => { $(#[path = $path] mod $name;)* };
}

files! {
    vector_add = "../../solutions/00_vector_add/main.rs";
    grids = "../../solutions/01_grids/main.rs";
    copy = "../../solutions/02_copy/main.rs";
    copy_before = "../../exercises/02_copy/main.rs";
    histogram = "../../solutions/03_histogram/main.rs";
    transpose = "../../solutions/04_transpose/main.rs";
    transpose_before = "../../exercises/04_transpose/main.rs";
    faults = "../../solutions/05_faults/main.rs";
    faults_before = "../../exercises/05_faults/main.rs";
    dot_product = "../../solutions/06_dot_product/main.rs";
    prefix_sum = "../../solutions/07_prefix_sum/main.rs";
    matrix_product = "../../solutions/08_matrix_product/main.rs";
    mdp_sweep = "../../solutions/09_mdp_sweep/main.rs";
    policy_evaluation = "../../solutions/10_policy_evaluation/main.rs";
    pomdp_backup = "../../solutions/11_pomdp_backup/main.rs";
    hmm_forward = "../../solutions/12_hmm_forward/main.rs";
    registers = "../../solutions/13_registers/main.rs";
    several_gpus = "../../solutions/14_several_gpus/main.rs";
    project = "../../solutions/15_project/main.rs";
}

/// The chapters that have a panel.
pub const CHAPTERS: [&str; 16] = [
    "00_vector_add",
    "01_grids",
    "02_copy",
    "03_histogram",
    "04_transpose",
    "05_faults",
    "06_dot_product",
    "07_prefix_sum",
    "08_matrix_product",
    "09_mdp_sweep",
    "10_policy_evaluation",
    "11_pomdp_backup",
    "12_hmm_forward",
    "13_registers",
    "14_several_gpus",
    "15_project",
];

/// The solution of an exercise.
macro_rules! solution {
    ($name:ident) => {
        &Version { name: "solution", exercise: $name::exercise }
    };
}

/// An exercise as a student gets it.
macro_rules! before {
    ($name:ident) => {
        &Version { name: "exercise", exercise: $name::exercise }
    };
}

/// What the panel of a chapter can run.
pub(crate) fn programs(chapter: &str) -> &'static [&'static dyn Program] {
    match chapter {
        "00_vector_add" => &[solution!(vector_add)],
        "01_grids" => &[solution!(grids)],
        "02_copy" => &[solution!(copy), before!(copy_before), &Sectors],
        "03_histogram" => &[solution!(histogram)],
        "04_transpose" => &[solution!(transpose), before!(transpose_before), &Banks],
        "05_faults" => &[solution!(faults), before!(faults_before)],
        "06_dot_product" => &[solution!(dot_product)],
        "07_prefix_sum" => &[solution!(prefix_sum)],
        "08_matrix_product" => &[solution!(matrix_product)],
        "09_mdp_sweep" => &[solution!(mdp_sweep)],
        "10_policy_evaluation" => &[solution!(policy_evaluation)],
        "11_pomdp_backup" => &[solution!(pomdp_backup)],
        "12_hmm_forward" => &[solution!(hmm_forward)],
        "13_registers" => &[solution!(registers)],
        "14_several_gpus" => &[solution!(several_gpus)],
        "15_project" => &[solution!(project)],
        _ => &[],
    }
}
