//! Enums whose variants have names. Command lines, files and reports use these names.

/// An enum whose variants have names and one-sentence descriptions.
pub trait Choice: Copy + Send + Sync + 'static {
    /// All variants, in the order of the declaration.
    const ALL: &'static [Self];

    /// The name of the variant.
    fn name(self) -> &'static str;

    /// The description of the variant: its documentation, without the final full stop.
    fn about(self) -> &'static str;

    /// The variant with this name; `None` for an unknown name. Case matters.
    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|choice| choice.name() == name)
    }

    /// What was expected in place of an unknown name.
    #[must_use]
    fn expected() -> String {
        let names: Vec<_> = Self::ALL.iter().map(|choice| choice.name()).collect();
        format!("expected one of {}", names.join(", "))
    }
}

/// A format of files.
pub trait FileFormat: Choice {
    /// Extensions of file names; the usual one comes first. None if the content alone identifies the format, or if
    /// another format has the same extension.
    fn extensions(self) -> &'static [&'static str];
}

/// Declares an enum with named variants, `Variant = "name"`, and implements [`Choice`] for it. The documentation of a
/// variant becomes its description. `Display` and `Serialize` write the name. A variant may have data, whose usual value
/// [`Choice::ALL`] contains: `Variant(Data = USUAL) = "name"`.
#[macro_export]
macro_rules! choice {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $(
                $(#[doc = $about:literal])+
                $(#[default $($nothing:tt)?])?
                $variant:ident $(($data:ty = $usual:expr))? = $text:literal,
            )+
        }
    ) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[doc = $about])+ $(#[default $($nothing)?])? $variant $(($data))?,)+
        }

        impl $crate::choice::Choice for $name {
            const ALL: &'static [Self] = &[$(Self::$variant $(($usual))?),+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $text,)+
                }
            }

            fn about(self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => concat!($($about),+).trim_ascii().trim_end_matches('.'),)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::choice::Choice::name(*self))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::choice::Choice::name(*self))
            }
        }
    };
}

/// Declares a [`choice!`] whose variants are formats, `Variant = "name" in ["extension"]`, and implements [`FileFormat`].
#[macro_export]
macro_rules! file_format {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[doc = $about:literal])+ $variant:ident = $text:literal in $extensions:expr,)+
        }
    ) => {
        $crate::choice::choice! {
            $(#[$attribute])*
            pub enum $name {
                $($(#[doc = $about])+ $variant = $text,)+
            }
        }

        impl $crate::choice::FileFormat for $name {
            fn extensions(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => &$extensions,)+
                }
            }
        }
    };
}

pub use {choice, file_format};

#[cfg(test)]
mod tests {
    use super::*;

    choice! {
        /// Sides.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum Side {
            /// The side of the heart,
            /// mostly.
            #[default]
            Left = "left-hand",
            /// The other side.
            Right = "right",
            /// Below, by some steps.
            Below(u32 = 1) = "below",
        }
    }

    #[test]
    fn choices_have_names_and_descriptions() {
        assert_eq!(Side::ALL, [Side::Left, Side::Right, Side::Below(1)]);
        assert_eq!(
            (Side::of_name("right"), Side::of_name("Right"), Side::default()),
            (Some(Side::Right), None, Side::Left)
        );
        assert_eq!((Side::of_name("below"), Side::Below(7).name()), (Some(Side::Below(1)), "below"));
        assert_eq!(Side::Left.about(), "The side of the heart, mostly");
        assert_eq!(format!("{:>6}", Side::Right), " right");
        assert_eq!(serde_json::to_string(&Side::Left).unwrap(), "\"left-hand\"");
    }
}
