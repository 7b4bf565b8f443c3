//! Choices by name: what users name on a command line, and files and reports spell out.

/// One of a few, each of which has a name.
pub trait Choice: Copy + Send + Sync + 'static {
    /// All of them, in the order in which they are listed.
    const ALL: &'static [Self];

    /// Its name.
    fn name(self) -> &'static str;

    /// What it is, in a sentence.
    fn about(self) -> &'static str;

    /// The one of this name.
    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|choice| choice.name() == name)
    }
}

/// An enum whose variants have names: `Variant = "name"`. It is a [`Choice`], whose variants are described by their documentation; it
/// is displayed and serialized by its name.
macro_rules! choice {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[doc = $about:literal])+ $(#[default $($nothing:tt)?])? $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[doc = $about])+ $(#[default $($nothing)?])? $variant,)+
        }

        impl $crate::common::choice::Choice for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($about),+).trim_ascii().trim_end_matches('.'),)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::common::choice::Choice::name(*self))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::common::choice::Choice::name(*self))
            }
        }
    };
}

pub(crate) use choice;

#[cfg(test)]
mod tests {
    use super::*;

    choice! {
        /// Sides.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum Side {
            /// Where the heart is,
            /// mostly.
            #[default]
            Left = "left-hand",
            /// The other one.
            Right = "right",
        }
    }

    #[test]
    fn choices_have_names_and_say_what_they_are() {
        assert_eq!(Side::ALL, [Side::Left, Side::Right]);
        assert_eq!(
            (Side::of_name("right"), Side::of_name("Right"), Side::default()),
            (Some(Side::Right), None, Side::Left)
        );
        assert_eq!(Side::Left.about(), "Where the heart is, mostly");
        assert_eq!(format!("{:>6}", Side::Right), " right");
        assert_eq!(serde_json::to_string(&Side::Left).unwrap(), "\"left-hand\"");
    }
}
