//! Matching where one sign stands for any run of items, none too: bytes of a name, segments of a path.

/// Whether `items` match `pattern`; `is_star` says which of its parts stand for a run, `equal` whether another part is an item.
///
/// Takes at most as many steps as the product of both lengths, whatever they hold.
pub fn matches<P, I>(
    pattern: &[P],
    items: &[I],
    is_star: impl Fn(&P) -> bool,
    equal: impl Fn(&P, &I) -> bool,
) -> bool {
    let (mut at, mut position, mut star) = (0, 0, None);
    while position < items.len() {
        if pattern.get(at).is_some_and(&is_star) {
            star = Some((at, position));
            at += 1;
        } else if pattern.get(at).is_some_and(|part| equal(part, &items[position])) {
            at += 1;
            position += 1;
        } else if let Some((star_at, from)) = star {
            at = star_at + 1;
            position = from + 1;
            star = Some((star_at, position));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(is_star)
}
