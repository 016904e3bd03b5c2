//! Enums that travel as numbers and have names in the specification.

/// Declares such an enum, with one line for each variant: its number, and its name.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        $name:ident: $number:ident, $what:literal,
        $($(#[$each:meta])* $variant:ident = $code:literal $word:literal,)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr($number)]
        pub enum $name {
            $($(#[$each])* $variant = $code,)*
        }

        impl $name {
            /// The one with a number.
            ///
            /// # Errors
            /// When the protocol has none.
            pub fn from_code(code: $number) -> Result<Self> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    _ => Err(ProtocolError::unknown_code($what, code)),
                }
            }

            /// Its name in the specification.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}
pub(super) use codes;
