//! The choice of the device, and the rule of `auto`.
//!
//! All model classes share one rule. A model class estimates the [cost](Cost) of a run on all cores and on a GPU.
//! `auto` takes the cheaper device and returns a note with both estimates. If no GPU is usable, `auto` takes the CPU.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::comm::World;
use super::device::AnyDevice;
use super::gpu;
use super::{Error, cores, emulator};
use crate::gpu::Gpu;

/// The value of `--device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The CPU or GPU 0, by the estimated time.
    #[default]
    Auto,
    /// All cores of the CPU.
    Cpu,
    /// The GPU with this ordinal.
    Cuda(u32),
    /// The GPU kernels, emulated on the CPU thread by thread. Slow; for tests and debugging.
    Emulated,
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Emulated => f.write_str("emulated"),
        }
    }
}

impl DeviceChoice {
    /// Whether this device runs kernels. For `auto`, whether there is a GPU.
    #[must_use]
    pub fn runs_kernels(self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Cuda(_) | Self::Emulated => true,
            Self::Auto => Gpu::count().is_ok_and(|count| count > 0),
        }
    }

    /// Opens a device for work that only kernels do. `auto` is the first GPU; if it cannot be used and `or_emulated`, `auto` is the
    /// emulator, and the reason is returned.
    ///
    /// # Errors
    /// [`Error::NoKernels`] for the CPU; and if there is no such GPU.
    pub fn open_kernels(self, or_emulated: bool) -> Result<(AnyDevice, Option<String>), Error> {
        match self {
            Self::Cpu => Err(Error::NoKernels),
            Self::Emulated => Ok((emulator().into(), None)),
            Self::Cuda(ordinal) => Ok((gpu::open(ordinal)?.into(), None)),
            Self::Auto => match gpu::open(0) {
                Ok(gpu) => Ok((gpu.into(), None)),
                Err(error) if or_emulated => Ok((emulator().into(), Some(format!("auto chose the emulator: {error}")))),
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// A text that is not a [`DeviceChoice`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected auto, cpu, cuda:N or emulated")]
pub struct UnknownDevice;

impl FromStr for DeviceChoice {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Self, UnknownDevice> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "emulated" => Ok(Self::Emulated),
            _ => {
                let ordinal = text.strip_prefix("cuda:").ok_or(UnknownDevice)?;
                ordinal.parse().map(Self::Cuda).map_err(|_| UnknownDevice)
            }
        }
    }
}

impl Serialize for DeviceChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The value of `--device` where several GPUs can work together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// One device.
    One(DeviceChoice),
    /// The GPU of this rank.
    Own,
    /// The GPUs with these ordinals, in ascending order.
    These(Vec<u32>),
    /// All GPUs.
    All,
}

impl Devices {
    /// The devices of this process, one for each of its ranks. A process without other processes has a rank for each
    /// GPU. If there are other processes, each has one rank, and its GPU is that of its [local
    /// rank](World::local_rank). `auto` then takes the GPU if every process has one, else the CPU.
    ///
    /// # Errors
    /// If there is no driver for the GPUs that are asked for, or if the other processes cannot be asked.
    pub fn choose(&self, world: &World) -> Result<Vec<DeviceChoice>, Error> {
        let all = || Ok::<_, Error>((0..Gpu::count()?).collect::<Vec<u32>>());
        let alone = world.comm().size() == 1;
        let own = |ordinals: &[u32]| match ordinals.len() {
            0 => DeviceChoice::Cuda(0),
            count => DeviceChoice::Cuda(ordinals[world.local_rank() as usize % count]),
        };
        Ok(match self {
            Self::One(DeviceChoice::Auto) if !alone => {
                let ordinals = all().unwrap_or_default();
                let lacks = world.comm().any(ordinals.is_empty())?;
                vec![if lacks { DeviceChoice::Cpu } else { own(&ordinals) }]
            }
            Self::One(device) => vec![*device],
            Self::Own => vec![own(&all()?)],
            Self::These(ordinals) if !alone => vec![own(ordinals)],
            Self::These(ordinals) => ordinals.iter().map(|&ordinal| DeviceChoice::Cuda(ordinal)).collect(),
            Self::All if !alone => vec![own(&all()?)],
            Self::All => all()?.into_iter().map(DeviceChoice::Cuda).collect(),
        })
    }
}

impl FromStr for Devices {
    type Err = UnknownDevices;

    fn from_str(text: &str) -> Result<Self, UnknownDevices> {
        match text.strip_prefix("cuda:") {
            Some("all") => Ok(Self::All),
            Some(list) if list.contains(',') => {
                let ordinals: Result<Vec<u32>, _> = list.split(',').map(str::parse).collect();
                let mut ordinals = ordinals.map_err(|_| UnknownDevices)?;
                ordinals.sort_unstable();
                // NCCL refuses two ranks on one GPU.
                if ordinals.windows(2).any(|pair| pair[0] == pair[1]) {
                    Err(UnknownDevices)
                } else {
                    Ok(Self::These(ordinals))
                }
            }
            None if text == "cuda" => Ok(Self::Own),
            _ => text.parse().map(Self::One).map_err(|_| UnknownDevices),
        }
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(device) => device.fmt(f),
            Self::Own => f.write_str("cuda"),
            Self::All => f.write_str("cuda:all"),
            Self::These(ordinals) => {
                let ordinals: Vec<_> = ordinals.iter().map(u32::to_string).collect();
                write!(f, "cuda:{}", ordinals.join(","))
            }
        }
    }
}

/// A text that is not [`Devices`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected auto, cpu, cuda:N, cuda:N,M,… with distinct numbers, cuda:all or emulated")]
pub struct UnknownDevices;

/// Seconds to start the driver and create a context; measured: 0.2 to 0.36 on an H100 and an H200.
pub const GPU_START: f64 = 1.0 / 3.0;

/// The estimated cost of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Description of the work, for the note: "1200 transitions in 153 sweeps".
    pub work: String,
    /// Seconds on all cores.
    pub cpu: f64,
    /// Seconds on a GPU, without [`GPU_START`].
    pub gpu: f64,
}

impl Cost {
    /// Whether the CPU is estimated to finish first: cpu ≤ [`GPU_START`] + gpu.
    #[must_use]
    pub fn suits_cpu(&self) -> bool {
        self.cpu <= GPU_START + self.gpu
    }

    /// The note of `auto`: the chosen device and both estimates.
    fn reason(&self) -> String {
        let place = if self.suits_cpu() { "CPU" } else { "GPU" };
        let (work, cpu, gpu) = (&self.work, seconds(self.cpu), seconds(GPU_START + self.gpu));
        format!(
            "auto chose the {place}: {work} take about {cpu} on {}, {gpu} on a GPU, its start included",
            cores::all()
        )
    }
}

/// A time for a note: in ms below 1 s, else in seconds.
fn seconds(time: f64) -> String {
    match time {
        time if time < 1e-3 => "a millisecond or less".to_owned(),
        time if time < 1.0 => format!("{:.0} ms", 1e3 * time),
        time if time < 100.0 => format!("{time:.1} s"),
        time => format!("{time:.0} s"),
    }
}

/// The chosen device, before it is opened.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The CPU.
    Cpu,
    /// A GPU.
    Gpu {
        /// Ordinal of the GPU.
        ordinal: u32,
        /// Whether to fall back to the CPU if the GPU is not usable.
        or_cpu: bool,
    },
    /// The emulator.
    Emulated,
}

impl Decision {
    /// Resolves `device`; for `auto`, also returns the note with the reason. Without a cost, `auto` takes GPU 0.
    #[must_use]
    pub fn new(device: DeviceChoice, cost: Option<&Cost>) -> (Self, Option<String>) {
        match device {
            DeviceChoice::Cpu => (Self::Cpu, None),
            DeviceChoice::Cuda(ordinal) => (Self::Gpu { ordinal, or_cpu: false }, None),
            DeviceChoice::Emulated => (Self::Emulated, None),
            DeviceChoice::Auto => match cost {
                Some(cost) if cost.suits_cpu() => (Self::Cpu, Some(cost.reason())),
                cost => (Self::Gpu { ordinal: 0, or_cpu: true }, cost.map(Cost::reason)),
            },
        }
    }

    /// The note of an `auto` that fell back to the CPU because of `error`.
    #[must_use]
    pub fn fell_back(error: &Error) -> String {
        format!("auto chose the CPU: {error}")
    }
}

/// An open device.
pub enum Place {
    /// All cores of the CPU.
    Cpu,
    /// A GPU, or the emulator.
    Device(AnyDevice),
}

impl Place {
    /// Opens the device that [`Decision::new`] chooses; for `auto`, also returns the note with the reason.
    ///
    /// # Errors
    /// If the device does not exist or is not usable, unless `auto` falls back to the CPU.
    pub fn open(device: DeviceChoice, cost: Option<&Cost>) -> Result<(Self, Option<String>), Error> {
        let (decision, reason) = Decision::new(device, cost);
        Ok(match decision {
            Decision::Cpu => (Self::Cpu, reason),
            Decision::Emulated => (Self::Device(emulator().into()), reason),
            Decision::Gpu { ordinal, or_cpu } => match gpu::open(ordinal).map_err(Error::from) {
                Ok(gpu) => (Self::Device(gpu.into()), reason),
                Err(error) if or_cpu => (Self::Cpu, Some(Decision::fell_back(&error))),
                Err(error) => return Err(error),
            },
        })
    }

    /// The name of the device in reports.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => cores::all(),
            Self::Device(device) => device.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_for_kernels_goes_to_a_device_that_runs_them() {
        let open =
            |device: DeviceChoice, or_emulated| device.open_kernels(or_emulated).map(|(device, _)| device.name());
        assert!(matches!(open(DeviceChoice::Cpu, true), Err(Error::NoKernels)));
        assert_eq!(open(DeviceChoice::Emulated, false).unwrap(), "the emulator");
        assert!(matches!(open(DeviceChoice::Cuda(4096), true), Err(Error::Device(_))));
        if !DeviceChoice::Auto.runs_kernels() {
            let (device, reason) = DeviceChoice::Auto.open_kernels(true).unwrap();
            assert!(matches!(device, AnyDevice::Emulated(_)));
            assert!(reason.unwrap().starts_with("auto chose the emulator: "));
            assert!(matches!(open(DeviceChoice::Auto, false), Err(Error::Device(_))));
        }
    }

    #[test]
    fn devices_parse_and_print() {
        for text in ["auto", "cpu", "cuda:0", "cuda:7", "emulated"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda(0)));
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU"] {
            assert_eq!(text.parse::<DeviceChoice>(), Err(UnknownDevice), "{text}");
        }
    }

    #[test]
    fn several_gpus_parse_and_print() {
        for text in ["auto", "cpu", "cuda", "cuda:1", "cuda:0,1", "cuda:1,3,64", "cuda:all", "emulated"] {
            assert_eq!(text.parse::<Devices>().unwrap().to_string(), text);
        }
        assert_eq!("cuda:2,0".parse(), Ok(Devices::These(vec![0, 2])));
        for text in ["", "cuda:", "cuda:0,", "cuda:0,0", "cuda:,1", "cuda:0,x", "cpu,cpu", "all"] {
            assert_eq!(text.parse::<Devices>(), Err(UnknownDevices), "{text}");
        }
        let alone = World::alone();
        let of = |devices: Devices| devices.choose(&alone).unwrap();
        assert_eq!(of(Devices::One(DeviceChoice::Auto)), [DeviceChoice::Auto]);
        assert_eq!(of(Devices::These(vec![0, 2])), [DeviceChoice::Cuda(0), DeviceChoice::Cuda(2)]);
    }

    #[test]
    fn auto_takes_the_cheaper_place_and_says_why() {
        let cost = |cpu, gpu| Cost { work: "3 products".to_owned(), cpu, gpu };
        let (place, reason) = Decision::new(DeviceChoice::Auto, Some(&cost(0.01, 0.0)));
        assert_eq!(place, Decision::Cpu);
        let reason = reason.unwrap();
        assert!(
            reason.starts_with("auto chose the CPU: 3 products take about 10 ms on ")
                && reason.contains("333 ms on a GPU"),
            "{reason}"
        );
        let (place, reason) = Decision::new(DeviceChoice::Auto, Some(&cost(20.0, 1.0)));
        assert_eq!(place, Decision::Gpu { ordinal: 0, or_cpu: true });
        assert!(reason.unwrap().starts_with("auto chose the GPU: 3 products take about 20.0 s on "));
        assert_eq!(Decision::new(DeviceChoice::Auto, Some(&cost(2.0, 1.8))).0, Decision::Cpu);
        // An explicit choice is taken without a note.
        for (device, decision) in [
            (DeviceChoice::Cpu, Decision::Cpu),
            (DeviceChoice::Cuda(3), Decision::Gpu { ordinal: 3, or_cpu: false }),
            (DeviceChoice::Emulated, Decision::Emulated),
        ] {
            assert_eq!(Decision::new(device, Some(&cost(20.0, 1.0))), (decision, None));
        }
    }
}
