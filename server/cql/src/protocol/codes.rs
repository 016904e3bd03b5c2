//! Enums that are encoded as numbers and have names in the specification.

/// Declares an enum with a number and a name for each variant.
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
            /// Returns the variant with this number.
            ///
            /// # Errors
            /// If the protocol does not define the number.
            pub fn from_code(code: $number) -> Result<Self> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    _ => Err(ProtocolError::unknown_code($what, code)),
                }
            }

            /// Returns the name of the variant in the specification of the protocol.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}
pub(super) use codes;
