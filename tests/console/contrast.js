// The contrast of every visible text against its background, and of the edges of controls, and of the ring
// around what has the focus (WCAG).
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((n) => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
  const luminance = ([r, g, b]) => {
    const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ratio = (one, other) => {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    const layers = [];
    for (let node = element; node; node = node.parentElement) layers.push(rgba(getComputedStyle(node).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const visible = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && getComputedStyle(element).visibility === "visible" && !element.closest(".unseen, .skip, [hidden]");
  };
  const failed = [];
  let checked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !visible(element) || element.closest(":disabled, script, noscript, dialog:not([open])")) continue;
    const style = getComputedStyle(element);
    const ground = behind(element);
    const colour = element.ownerSVGElement ? style.fill : style.color;
    const size = parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const found = ratio(over(rgba(colour), ground), ground);
    checked += 1;
    if (found < wanted) failed.push(`${found.toFixed(2)} < ${wanted}: ${element.tagName}.${element.className} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  for (const control of document.querySelectorAll("input, select")) {
    if (!visible(control) || control.disabled || control.type === "range") continue;
    const style = getComputedStyle(control);
    const ground = behind(control.parentElement);
    const found = ratio(over(rgba(style.borderTopColor), ground), ground);
    checked += 1;
    if (found < 3) failed.push(`edge ${found.toFixed(2)} < 3: ${control.outerHTML.slice(0, 60)}`);
  }
  const focused = document.activeElement;
  const outline = getComputedStyle(focused);
  if (focused !== document.body && outline.outlineStyle !== "none") {
    const ground = behind(focused.parentElement);
    const found = ratio(over(rgba(outline.outlineColor), ground), ground);
    checked += 1;
    if (found < 3) failed.push(`focus ${found.toFixed(2)} < 3: ${focused.outerHTML.slice(0, 60)}`);
  }
  return { checked, failed };
}
