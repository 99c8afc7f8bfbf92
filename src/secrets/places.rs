//! Where in a request a value may be put.

/// A place in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The value of a header.
    Header,
    /// User or password of Basic authentication.
    Basic,
    /// After the `?` of the target.
    Query,
    /// Before it.
    Path,
    /// The body.
    Body,
}

impl Place {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Self; 5] = [Self::Header, Self::Basic, Self::Query, Self::Path, Self::Body];

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Basic => "basic",
            Self::Query => "query",
            Self::Path => "path",
            Self::Body => "body",
        }
    }

    /// The place that `name` says, if it is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of places. By default all but the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Places(u8);

impl Places {
    /// No place.
    pub const NONE: Self = Self(0);

    /// Whether `place` is one of them.
    pub fn contains(self, place: Place) -> bool {
        self.0 & place.bit() != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// The places, in the order of [`Place::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Place> {
        Place::ALL.into_iter().filter(move |place| self.contains(*place))
    }
}

impl Default for Places {
    fn default() -> Self {
        [Place::Header, Place::Basic, Place::Query, Place::Path].into_iter().collect()
    }
}

impl FromIterator<Place> for Places {
    fn from_iter<I: IntoIterator<Item = Place>>(places: I) -> Self {
        Self(places.into_iter().fold(0, |bits, place| bits | place.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_word_and_the_default_is_all_but_the_body() {
        for place in Place::ALL {
            assert_eq!(Place::parse(place.name()), Some(place));
            assert_eq!(Places::default().contains(place), place != Place::Body);
            assert_eq!(Places::from_iter([place]).iter().collect::<Vec<_>>(), [place]);
        }
        assert_eq!(Place::parse("Header"), None);
        assert!(Places::from_iter([]).is_empty());
    }
}
