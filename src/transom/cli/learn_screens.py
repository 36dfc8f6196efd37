"""A lesson on a terminal: predict, look, change a number, go on or back."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

import typer

from transom.cli import STOPPED
from transom.cli.cli_io import print_note, print_picture, print_text, shows_colours
from transom.cli.learn_progress import LessonProgress, save_progress
from transom.files.terminal import escape_controls
from transom.names import Misfit
from transom.show.colours import bold

if TYPE_CHECKING:
    from transom.lessons import Lesson
    from transom.lessons.lesson import LessonStep
    from transom.lessons.lesson_screens import LessonScreen

StepFrames = Callable[["LessonStep"], list[list[str]]]
HELP = "Enter for the next step, b to go back, a number to go there, q to stop "
MOST_TRIES = 3


@dataclass
class LessonPlayer:
    """Plays the screens of a lesson one by one, and counts right answers.

    width     columns of the terminal
    frames    the picture of a step as text; several if it is played token by token
    """

    lesson: "Lesson"
    screens: "list[LessonScreen]"
    width: int
    frames: StepFrames
    progress: LessonProgress = field(default_factory=LessonProgress)

    def play(self) -> None:
        """Until the end, or until q or Ctrl-D."""
        self.progress.screens = len(self.screens)
        number = 0
        while number is not None and number < len(self.screens):
            if not self.play_screen(number):
                return
            self.progress.screen = max(self.progress.screen, number + 1)
            print_note(save_progress(self.lesson.name[3:], self.progress))
            if number + 1 == len(self.screens):
                return
            number = self.ask_where_next(number)

    def play_screen(self, number: int) -> bool:
        """Show one screen; False if the learner stops in the middle of it."""
        screen = self.screens[number]
        title = f"{screen.title}  ({number + 1}/{len(self.screens)})"
        print_picture(bold(escape_controls(title)) if shows_colours() else title)
        self.print_parts(screen.parts)
        if screen.step is not None and screen.step.predict is not None and not self.ask_prediction(screen):
            return False
        self.print_parts(screen.shown)
        if screen.step is not None and screen.step.picture and not self.play_frames(self.frames(screen.step)):
            return False
        self.print_parts(screen.changed)
        return screen.step is None or screen.step.change is None or self.ask_changes(screen.step)

    def play_frames(self, frames: list[list[str]]) -> bool:
        """One picture after the other; Enter goes on."""
        for number, lines in enumerate(frames):
            if number and read_answer(f"Picture {number} of {len(frames)}; Enter for the next: ") is None:
                return False
            for line in lines:
                print_text(line)
        return True

    def print_parts(self, parts: Iterable[object]) -> None:
        for part in parts:
            for line in part.wrap(self.width):  # pyright: ignore[reportAttributeAccessIssue]
                print_text(line)

    def ask_prediction(self, screen: "LessonScreen") -> bool:
        """Let the learner answer, and say what is right and why."""
        from transom.lessons.predictions import judge_answer

        assert screen.step is not None
        assert screen.step.predict is not None
        for _ in range(MOST_TRIES):
            text = read_answer("Your answer (Enter to see it): ")
            if text is None:
                return False
            if not text:
                break
            try:
                verdict = judge_answer(self.lesson, screen.step.predict, text)
            except Misfit as error:
                print_text(str(error))
                continue
            self.progress.asked += 1
            self.progress.right += verdict.is_right
            print_text("Right." if verdict.is_right else f"Not quite: you said {text}.")
            for cause in verdict.causes:
                print_text(f"  Likely: {cause}.")
            break
        self.print_parts(screen.answer)
        return True

    def ask_changes(self, step: "LessonStep") -> bool:
        """Let the learner try other numbers, as long as some come."""
        from transom.lessons.lesson_screens import change_text
        from transom.lessons.predictions import parse_answer

        assert step.change is not None
        while True:
            text = read_answer(f"Another number instead of {step.change.to} (Enter to go on): ")
            if text is None:
                return False
            if not text:
                return True
            try:
                number: Decimal = parse_answer(text)
                self.print_parts(list(change_text(self.lesson, step, number)))
            except Misfit as error:
                print_text(str(error))

    def ask_where_next(self, number: int) -> int | None:
        """The next screen, the one before, or one by its number; None to stop."""
        while True:
            text = read_answer(HELP)
            if text is None:
                return None
            if text in ("", "b"):
                return max(0, number - 1) if text else number + 1
            if text.isdigit() and 1 <= int(text) <= len(self.screens):
                return int(text) - 1
            print_text(f"there are steps 1 to {len(self.screens)}, but {text!r} came")


def read_answer(prompt: str) -> str | None:
    """A line from the learner; None for q and Ctrl-D. Ctrl-C ends the command."""
    print_text(prompt, stderr=True, end="")
    try:
        text = input().strip()
    except EOFError:
        print_text(stderr=True)
        return None
    except KeyboardInterrupt:
        print_text(stderr=True)
        raise typer.Exit(STOPPED) from None
    return None if text.lower() == "q" else text
