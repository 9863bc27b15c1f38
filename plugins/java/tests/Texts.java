// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

/** Notes turns and prints their texts, a line each. */
public class Texts {
  /** A thread's turn for each `tid, from, to, follows`, in order. */
  static Turns noted(long... numbers) {
    Turns turns = new Turns();
    for (int at = 0; at < numbers.length; at += 4) {
      turns.begin(numbers[at], numbers[at + 1]);
      turns.end(numbers[at], numbers[at + 2], numbers[at + 3] != 0);
    }
    return turns;
  }

  public static void main(String[] arguments) {
    System.out.println(noted().end(5, 9));
    System.out.println(noted(7, 100, 130, 0, 8, 140, 150, 0, 7, 150, 151, 0, 8, 160, 190, 0).end(110, 200));
    // Near enough to join, another thread, too far, and not known to follow.
    System.out.println(noted(7, 0, 10, 0, 7, 10_010, 10_020, 1).end(0, 20_000));
    System.out.println(noted(7, 0, 10, 0, 8, 10_010, 10_020, 1).end(0, 20_000));
    System.out.println(noted(7, 0, 10, 0, 7, 10_011, 10_020, 1).end(0, 20_000));
    System.out.println(noted(7, 0, 10, 0, 7, 10_010, 10_020, 0).end(0, 20_000));
    // Two threads at the same time, one until the span's end.
    Turns both = noted();
    both.begin(7, 10);
    both.begin(8, 20);
    both.end(7, 30, false);
    System.out.println(both.end(0, 40));
    System.out.println(both.end(0, 50));
    // Clocks that were set back.
    System.out.println(noted(7, 20, 10, 0).end(0, 30));
    System.out.println(noted(7, 10, 20, 0, 7, 15, 30, 0).end(0, 30));
    Turns many = noted();
    for (long turn = 0; turn < 66; turn++) {
      many.begin(7, 100 * turn + 10);
      many.end(7, 100 * turn + 20, false);
    }
    String text = many.end(5, 7000);
    System.out.println(text.substring(0, 20) + " " + text.split(" ").length);
  }
}
