//! The third witness: termwiz, the parser of wezterm, which gives most sequences a meaning.

use termwiz::escape::csi::{Cursor, DecPrivateMode, Device, Keyboard, Mode, Window};
use termwiz::escape::parser::Parser;
use termwiz::escape::{
    Action, CSI, ControlCode, DeviceControlMode, Esc, EscCode, OperatingSystemCommand as Osc,
};

use super::oracle::{is_listed_command, is_listed_mode, is_listed_sequence};

/// What termwiz sees in `output` that the default classes must not let pass.
pub fn forbidden(output: &[u8]) -> Vec<String> {
    let mut forbidden = Vec::new();
    Parser::new().parse(output, |action| {
        if !is_listed(&action) {
            forbidden.push(format!("{action:?}"));
        }
    });
    forbidden
}

fn is_listed(action: &Action) -> bool {
    match action {
        Action::Print(c) => !c.is_control(),
        Action::PrintString(text) => !text.contains(char::is_control),
        Action::Control(code) => matches!(
            code,
            ControlCode::Bell
                | ControlCode::Backspace
                | ControlCode::HorizontalTab
                | ControlCode::LineFeed
                | ControlCode::CarriageReturn
                | ControlCode::ShiftIn
                | ControlCode::ShiftOut
        ),
        Action::XtGetTcap(_) => true,
        Action::DeviceControl(DeviceControlMode::Exit) => true,
        Action::DeviceControl(_) | Action::Sixel(_) | Action::KittyImage(_) => false,
        Action::OperatingSystemCommand(command) => command_is_listed(command),
        Action::Esc(esc) => match esc {
            Esc::Code(code) => matches!(
                code,
                EscCode::StringTerminator
                    | EscCode::DecSaveCursorPosition
                    | EscCode::DecRestoreCursorPosition
                    | EscCode::Index
                    | EscCode::NextLine
                    | EscCode::ReverseIndex
                    | EscCode::DecApplicationKeyPad
                    | EscCode::DecNormalKeyPad
                    | EscCode::DecLineDrawingG0
                    | EscCode::DecLineDrawingG1
                    | EscCode::AsciiCharacterSetG0
                    | EscCode::AsciiCharacterSetG1
                    | EscCode::UkCharacterSetG0
                    | EscCode::UkCharacterSetG1
            ),
            Esc::Unspecified { intermediate, control } => {
                matches!(intermediate, Some(b'('..=b'+')) && matches!(control, b'A' | b'B' | b'0')
            }
        },
        Action::CSI(csi) => sequence_is_listed(csi),
    }
}

fn command_is_listed(command: &Osc) -> bool {
    match command {
        Osc::SetIconNameAndWindowTitle(_)
        | Osc::SetWindowTitle(_)
        | Osc::SetIconName(_)
        | Osc::SetHyperlink(_)
        | Osc::ChangeColorNumber(_)
        | Osc::ChangeDynamicColors(..)
        | Osc::ResetDynamicColor(_)
        | Osc::ResetColors(_)
        | Osc::FinalTermSemanticPrompt(_)
        | Osc::ConEmuProgress(_) => true,
        Osc::Unspecified(params) => is_listed_command(&params.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        _ => false,
    }
}

fn sequence_is_listed(csi: &CSI) -> bool {
    match csi {
        CSI::Sgr(_) | CSI::Edit(_) => true,
        CSI::Cursor(
            Cursor::SetLeftAndRightMargins { .. } | Cursor::TabulationClear(_) | Cursor::TabulationControl(_),
        ) => false,
        CSI::Cursor(_) => true,
        CSI::Keyboard(keyboard) => !matches!(keyboard, Keyboard::ReportKittyState(_)),
        CSI::Device(device) => matches!(
            **device,
            Device::SoftReset
                | Device::RequestPrimaryDeviceAttributes
                | Device::RequestSecondaryDeviceAttributes
                | Device::StatusReport
                | Device::RequestTerminalNameAndVersion
        ),
        CSI::Window(window) => matches!(
            **window,
            Window::ReportTextAreaSizePixels
                | Window::ReportCellSizePixels
                | Window::ReportTextAreaSizeCells
                | Window::PushIconAndWindowTitle
                | Window::PushIconTitle
                | Window::PushWindowTitle
                | Window::PopIconAndWindowTitle
                | Window::PopIconTitle
                | Window::PopWindowTitle
        ),
        CSI::Mode(mode) => match mode {
            Mode::SetDecPrivateMode(mode) | Mode::ResetDecPrivateMode(mode) => is_listed_mode(match mode {
                DecPrivateMode::Code(code) => code.clone() as u16,
                DecPrivateMode::Unspecified(number) => *number,
            }),
            Mode::QueryDecPrivateMode(_) | Mode::QueryMode(_) | Mode::XtermKeyMode { .. } => true,
            _ => false,
        },
        CSI::Mouse(_) | CSI::SelectCharacterPath(..) => false,
        CSI::Unspecified(unspecified) => {
            let text = unspecified.to_string();
            let inter: String = text.chars().filter(|c| matches!(c, '<'..='?' | ' '..='/')).collect();
            let numbers: Vec<u16> =
                text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
            !unspecified.parameters_truncated
                && is_listed_sequence(inter.as_bytes(), unspecified.control, &numbers)
        }
    }
}
