//! NVIDIA GPUs: re-exports of [`warpkov_cuda`], and the compiled kernels of the solvers.

pub use warpkov_cuda::*;

/// The kernels of [`warpkov_kernels`], compiled by the build script.
pub static MODULES: Modules = warpkov_cuda::modules!();

/// Opens the GPU with this ordinal for the kernels of [`MODULES`].
///
/// # Errors
/// If there is no such GPU, or no compiled code fits it.
pub fn open(ordinal: u32) -> Result<Gpu, CudaError> {
    Gpu::open(ordinal, &MODULES)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use warpkov_build::{audit, ptx};

    use super::*;

    #[test]
    fn the_table_of_this_build_is_in_order() {
        let baselines = MODULES.baselines;
        assert_eq!(MODULES.compiler.is_err(), baselines.is_empty());
        assert!(baselines.windows(2).all(|pair| (pair[0].sm, pair[0].alone) < (pair[1].sm, pair[1].alone)));
        for baseline in baselines {
            assert!(baseline.entries.windows(2).all(|pair| pair[0].name < pair[1].name), "sm_{}", baseline.sm);
        }
    }

    #[test]
    fn every_kernel_of_this_build_unpacks() {
        let baselines = MODULES.baselines;
        assert_eq!(MODULES.assembler.is_some(), baselines.iter().any(|baseline| !baseline.machine.is_empty()));
        for baseline in baselines {
            for entry in baseline.entries {
                let text = baseline.text(entry).expect("it is whole");
                assert!(text.contains(&format!(".entry {}(", entry.name)), "{}", entry.name);
                for at in 0..baseline.machine.len() {
                    let code = baseline.machine_code(entry, at).expect("it is whole");
                    assert!(code.starts_with(b"\x7fELF"), "{}", entry.name);
                }
            }
        }
    }

    #[test]
    fn machine_code_states_its_registers() {
        for baseline in MODULES.baselines {
            for (entry, &sm) in
                baseline.entries.iter().flat_map(|entry| baseline.machine.iter().map(move |sm| (entry, sm)))
            {
                let registers = MODULES.registers(entry.name, sm);
                assert!(registers.is_some_and(|count| (8..=255).contains(&count)), "{}: {registers:?}", entry.name);
            }
        }
        assert_eq!(MODULES.registers("vector_add_f32", 70), None);
        assert_eq!(MODULES.registers("no_such_kernel", 90), None);
    }

    #[test]
    fn launch_bounds_are_in_the_ptx() {
        for baseline in MODULES.baselines {
            for entry in baseline.entries {
                let text = baseline.text(entry).expect("it is whole");
                let bounded = text.contains(")\n.maxntid 256\n.minnctapersm 2\n{");
                assert_eq!(bounded, entry.name == "library_bounds", "{}", entry.name);
                assert!(bounded || !text.contains(".maxntid"), "{}", entry.name);
            }
        }
    }

    /// Each kernel is embedded as a module of its own.
    #[test]
    fn every_kernel_of_this_build_stands_alone() {
        let declared = |text: &str| -> BTreeSet<String> {
            let lines = text.lines().filter(|line| line.starts_with('.') && line.ends_with(';'));
            lines.filter_map(|line| Some(line.split('[').next()?.split_whitespace().last()?.to_owned())).collect()
        };
        for baseline in MODULES.baselines {
            let text = |entry: &Entry| baseline.text(entry).expect("it is whole");
            let texts: BTreeMap<_, _> = baseline.entries.iter().map(|entry| (entry.name, text(entry))).collect();
            let all: BTreeSet<_> = texts.values().flat_map(|text| declared(text)).collect();
            for entry in baseline.entries {
                let text = &texts[entry.name];
                let module = ptx::parse(text).expect("the module is read");
                let found: Vec<_> = module.entries.iter().map(|entry| (entry.name, entry.params.as_slice())).collect();
                assert_eq!(found, [(entry.name, entry.params)]);
                let &Baseline { sm, alone, ptx, .. } = baseline;
                let mut expected = audit::Expected::of([entry.name]);
                expected.hopper_alone.extend(alone.then(|| entry.name.to_owned()));
                let baseline = warpkov_build::Baseline { sm, alone, ptx, machine: Vec::new() };
                assert_eq!(audit::faults(text, &module, &baseline, &expected), [""; 0]);
                let has = declared(text);
                // Of the kernel and of the functions that it calls.
                let bodies = text.lines().filter(|line| !(line.starts_with('.') && line.ends_with(';')));
                let words =
                    bodies.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && !"_$".contains(c)));
                let needs: BTreeSet<_> = words.map(str::to_owned).filter(|word| all.contains(word)).collect();
                assert_eq!(needs, has, "{}", entry.name);
            }
        }
    }
}
