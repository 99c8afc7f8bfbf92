//! Text attributes: what SGR sequences have switched on.

/// How text looks at the moment. The default is plain text in default colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    flags: u16,
    underline: u16,
    foreground: Colour,
    background: Colour,
    underline_colour: Colour,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Colour {
    #[default]
    Default,
    Basic(u16),
    Indexed(u16),
    Rgb(u16, u16, u16),
}

/// The numbers that switch a flag on, and that switch it off. The position is the flag's bit.
const FLAGS: [(u16, u16); 9] =
    [(1, 22), (2, 22), (3, 23), (5, 25), (6, 25), (7, 27), (8, 28), (9, 29), (53, 55)];

impl Attributes {
    /// Applies the parameters of one SGR sequence. `colon(i)` tells whether parameter `i` is a sub-parameter
    /// of the one before; an absent parameter counts as 0.
    pub fn apply(&mut self, params: &[u16], colon: impl Fn(usize) -> bool) {
        if params.is_empty() {
            *self = Self::default();
        }
        let mut index = 0;
        while index < params.len() {
            let start = index;
            index += 1;
            while index < params.len() && colon(index) {
                index += 1;
            }
            let subs = &params[start + 1..index];
            match params[start] {
                0 => *self = Self::default(),
                4 => self.underline = subs.first().copied().unwrap_or(1).min(5),
                21 => self.underline = 2,
                24 => self.underline = 0,
                number @ (30..=37 | 90..=97) => self.foreground = Colour::Basic(number),
                39 => self.foreground = Colour::Default,
                number @ (40..=47 | 100..=107) => self.background = Colour::Basic(number),
                49 => self.background = Colour::Default,
                59 => self.underline_colour = Colour::Default,
                number @ (38 | 48 | 58) => {
                    let colour = if subs.is_empty() {
                        let (colour, used) = Colour::of_plain(&params[index..]);
                        index += used;
                        colour
                    } else {
                        Colour::of_subs(subs)
                    };
                    if let Some(colour) = colour {
                        match number {
                            38 => self.foreground = colour,
                            48 => self.background = colour,
                            _ => self.underline_colour = colour,
                        }
                    }
                }
                number => self.flag(number),
            }
        }
    }

    /// The sequences that bring these attributes about, starting from the default. Empty for the default.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut numbers: Vec<String> = FLAGS
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.flags & (1 << bit) != 0)
            .map(|(_, (on, _))| on.to_string())
            .collect();
        match self.underline {
            0 => {}
            1 => numbers.push("4".to_owned()),
            style => numbers.push(format!("4:{style}")),
        }
        for (colour, base) in [(self.foreground, 38), (self.background, 48), (self.underline_colour, 58)] {
            match colour {
                Colour::Default => {}
                Colour::Basic(number) => numbers.push(number.to_string()),
                Colour::Indexed(number) => numbers.push(format!("{base};5;{number}")),
                Colour::Rgb(red, green, blue) => numbers.push(format!("{base};2;{red};{green};{blue}")),
            }
        }
        if !numbers.is_empty() {
            out.extend_from_slice(b"\x1b[");
            out.extend_from_slice(numbers.join(";").as_bytes());
            out.push(b'm');
        }
    }

    #[inline]
    fn flag(&mut self, number: u16) {
        let Some((on, off)) = FLAG_BITS.get(usize::from(number)) else { return };
        self.flags = (self.flags | on) & !off;
    }
}

/// For every SGR number the bits that it sets and clears.
static FLAG_BITS: [(u16, u16); 56] = {
    let mut bits = [(0, 0); 56];
    let mut bit = 0;
    while bit < FLAGS.len() {
        let (on, off) = FLAGS[bit];
        bits[on as usize].0 |= 1 << bit;
        bits[off as usize].1 |= 1 << bit;
        bit += 1;
    }
    bits
};

impl Colour {
    /// The colour after `38`, as separate parameters, and how many of them it takes: all when it has no known form.
    fn of_plain(rest: &[u16]) -> (Option<Self>, usize) {
        match *rest {
            [5, index, ..] => (Some(Self::Indexed(index)), 2),
            [2, red, green, blue, ..] => (Some(Self::Rgb(red, green, blue)), 4),
            _ => (None, rest.len()),
        }
    }

    /// The colour after `38` as sub-parameters, with or without the colour space.
    fn of_subs(subs: &[u16]) -> Option<Self> {
        match *subs {
            [5, index] => Some(Self::Indexed(index)),
            [2, red, green, blue] | [2, _, red, green, blue, ..] => Some(Self::Rgb(red, green, blue)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_applied_is_written_again() {
        let cases: &[(&[&[u16]], &str)] = &[
            (&[&[1], &[31]], "\x1b[1;31m"),
            (&[&[1, 31], &[0]], ""),
            (&[&[1, 31], &[]], ""),
            (&[&[38, 2, 1, 2, 3, 4]], "\x1b[4;38;2;1;2;3m"),
            (&[&[48, 5, 200], &[39]], "\x1b[48;5;200m"),
            (&[&[1, 2, 3], &[22]], "\x1b[3m"),
            (&[&[91, 104]], "\x1b[91;104m"),
            (&[&[38, 5]], ""),
        ];
        for (steps, want) in cases {
            let mut attributes = Attributes::default();
            for step in *steps {
                attributes.apply(step, |_| false);
            }
            let mut out = Vec::new();
            attributes.write(&mut out);
            assert_eq!(String::from_utf8(out).expect("ASCII"), *want, "{steps:?}");
        }
    }

    #[test]
    fn sub_parameters_belong_to_their_number() {
        let mut attributes = Attributes::default();
        attributes.apply(&[4, 3, 38, 2, 0, 9, 8, 7, 1], |index| matches!(index, 1 | 3..=7));
        let mut out = Vec::new();
        attributes.write(&mut out);
        assert_eq!(out, b"\x1b[1;4:3;38;2;9;8;7m");
    }
}
