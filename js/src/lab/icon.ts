import { LabIcon } from "@jupyterlab/ui-components";

/** Three lanes of a tape; the middle one is broken where its values were overwritten. */
const LANES = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
  <g class="jp-icon3" fill="none" stroke="#616161" stroke-width="2" stroke-linecap="round">
    <path d="M2 3.5h12"/><path d="M2 8h3.5"/><path d="M10.5 8H14"/><path d="M2 12.5h12"/>
  </g>
  <path class="td-icon-break" stroke="#c62828" stroke-width="1.6" stroke-linecap="round" d="M7 6.2 9 9.8M9 6.2 7 9.8"/>
</svg>`;

export const tapeIcon = new LabIcon({ name: "tapedebug:tape", svgstr: LANES });
