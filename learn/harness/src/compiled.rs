//! Limits on the compiled code of a kernel, which the emulator does not see: it runs the source.

/// The compiled code of a program.
pub trait Code {
    /// Why there is none.
    fn missing(&self) -> Option<String>;

    /// The newest PTX of the kernel with this entry point.
    fn ptx(&self, entry: &str) -> Option<String>;

    /// Registers per thread in the machine code for compute capability 9.0.
    fn registers(&self, entry: &str) -> Option<u32>;

    /// Bytes of stack per thread in the machine code for compute capability 9.0: arrays, and registers that are spilled.
    fn stack_bytes(&self, entry: &str) -> Option<u32>;
}

/// Compute capability of the machine code that is read.
#[cfg(feature = "gpu")]
const SM: u32 = 90;

#[cfg(feature = "gpu")]
impl Code for warpkov_cuda::Modules {
    fn missing(&self) -> Option<String> {
        self.compiler.err().map(Into::into)
    }

    fn ptx(&self, entry: &str) -> Option<String> {
        let baseline = self.baselines.last()?;
        baseline.text(baseline.entry(entry).ok()?).ok()
    }

    fn registers(&self, entry: &str) -> Option<u32> {
        self.registers(entry, SM)
    }

    fn stack_bytes(&self, entry: &str) -> Option<u32> {
        self.stack_bytes(entry, SM)
    }
}

/// What a budget limits: a number, or why it is not known.
type Measure = Box<dyn Fn(&dyn Code) -> Result<u32, String>>;

/// A limit on the compiled code of a kernel.
pub struct CodeBudget {
    /// What is limited, such as `bytes of local memory in the PTX of visits`.
    pub what: String,
    /// The largest permitted value.
    pub limit: u32,
    measure: Measure,
}

impl CodeBudget {
    fn new(
        what: String,
        kernel: &'static str,
        limit: u32,
        measure: impl Fn(&dyn Code, &str) -> Result<u32, String> + 'static,
    ) -> Self {
        let measure = move |code: &dyn Code| match code.missing() {
            Some(why) => Err(why),
            None => measure(code, kernel),
        };
        Self { what, limit, measure: Box::new(measure) }
    }

    /// Bytes of local memory that the PTX reserves for arrays of a thread.
    pub fn local_bytes(kernel: &'static str, limit: u32) -> Self {
        Self::new(format!("bytes of local memory in the PTX of {kernel}"), kernel, limit, |code, kernel| {
            code.ptx(kernel).map(|text| local_bytes(&text)).ok_or_else(|| format!("there is no PTX of {kernel}"))
        })
    }

    /// Registers per thread in the machine code.
    pub fn registers(kernel: &'static str, limit: u32) -> Self {
        Self::new(format!("registers per thread in {kernel}"), kernel, limit, |code, kernel| {
            code.registers(kernel).ok_or_else(|| format!("there is no machine code of {kernel}"))
        })
    }

    /// Bytes of stack per thread in the machine code, spilled registers included.
    pub fn stack_bytes(kernel: &'static str, limit: u32) -> Self {
        Self::new(format!("bytes of stack per thread in {kernel}"), kernel, limit, |code, kernel| {
            code.stack_bytes(kernel).ok_or_else(|| format!("there is no machine code of {kernel}"))
        })
    }

    /// The value in this code, or why it is not known.
    ///
    /// # Errors
    /// There is no such code.
    pub fn measure(&self, code: Option<&dyn Code>) -> Result<u32, String> {
        let code = code.ok_or("this program has no GPU code")?;
        (self.measure)(code)
    }
}

/// The bytes of all declarations `.local .align A .b8 name[BYTES];`.
fn local_bytes(ptx: &str) -> u32 {
    let declarations = ptx.lines().map(str::trim_start).filter(|line| line.starts_with(".local "));
    let bytes = |line: &str| line.split_once('[')?.1.split_once(']')?.0.parse::<u32>().ok();
    declarations.filter_map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(&'static str);

    impl Code for Text {
        fn missing(&self) -> Option<String> {
            None
        }
        fn ptx(&self, entry: &str) -> Option<String> {
            (entry == "kernel").then(|| self.0.to_owned())
        }
        fn registers(&self, _: &str) -> Option<u32> {
            None
        }
        fn stack_bytes(&self, _: &str) -> Option<u32> {
            None
        }
    }

    #[test]
    fn bytes_of_local_memory_are_those_of_the_declarations() {
        let text =
            Text("{\n\t.local .align 16 .b8 \t__local_depot0[48];\n\t.reg .b32 %r<4>;\n\tst.local.b32 [%r1], 0;\n}");
        assert_eq!(CodeBudget::local_bytes("kernel", 0).measure(Some(&text)), Ok(48));
        assert!(CodeBudget::local_bytes("other", 0).measure(Some(&text)).is_err());
        assert!(CodeBudget::registers("kernel", 0).measure(Some(&text)).is_err());
        assert!(CodeBudget::local_bytes("kernel", 0).measure(None).is_err());
    }
}
