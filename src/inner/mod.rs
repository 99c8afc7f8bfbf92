//! The in-jail stage: what runs between the held door and exec. It imports nothing but `plan::inner` and `sys`.
