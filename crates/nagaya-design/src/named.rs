//! Enums whose values have names in the language.

/// Declares an enum, with the name of each value.
macro_rules! named {
    ($(#[$about:meta])* pub enum $type:ident { $($(#[$meaning:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$meaning])* $value,)+
        }

        impl $type {
            /// The names of all values.
            pub const NAMES: &[&str] = &[$($name),+];

            /// All values.
            pub const ALL: [$type; $type::NAMES.len()] = [$($type::$value),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)+
                }
            }

            /// The value with this name.
            pub fn named(name: &str) -> Option<Self> {
                $type::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;
