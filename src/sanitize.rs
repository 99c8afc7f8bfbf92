//! Foreign strings are escaped before they are shown.
