//! How an input is cut for a second reading.

/// 0 cuts everywhere; an odd number in pieces of that many bytes; an even one in pieces of changing length.
pub fn cuts(input: &[u8], cut: u8) -> Vec<&[u8]> {
    if cut == 0 {
        return input.chunks(1).collect();
    }
    if cut % 2 == 1 {
        return input.chunks(usize::from(cut)).collect();
    }
    let (mut pieces, mut rest, mut state) = (Vec::new(), input, cut);
    while !rest.is_empty() {
        state = state.wrapping_mul(37).wrapping_add(11);
        let (piece, after) = rest.split_at(usize::from(state % 9 + 1).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
