"""Measures of the page of the dashboard, in a browser."""

from typing import Final

UNKNOWN: Final = "\N{EN DASH}"


# What has to be scrolled sideways to be seen.
OVERHANGS = """() => [document.documentElement, ...document.querySelectorAll(".scroll")]
  .filter((one) => one.scrollWidth > one.clientWidth)
  .map((one) => one.getAttribute("aria-labelledby") ?? one.tagName)"""


# Elements with text that stands out less from its ground than WCAG 2 wants (4.5), each with the ratio.
CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/rgba\\(.*, 0\\)|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("body *:not(svg *)")]
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .filter((one) => one.offsetParent)
    .map((one) => {
      const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
      return [one.tagName + "#" + one.id + "." + one.className, (a + 0.05) / (b + 0.05)];
    })
    .filter(([, contrast]) => contrast < 4.5);
}"""
