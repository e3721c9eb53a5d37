/** The user's settings, in effect as soon as they change. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { Signal } from "@lumino/signaling";
import { ITapeSettings, type Theme } from "./tokens.js";

const ID = "tapedebug:settings";
const MEGABYTE = 1_000_000;
const LARGEST = 100;

class Settings implements ITapeSettings {
  marks = true;
  theme: Theme = "follow";
  autoDiagnose = false;
  largestTrace = LARGEST * MEGABYTE;
  readonly changed: Signal<ITapeSettings, void> = new Signal(this);
  private source: ISettingRegistry.ISettings | null = null;

  follow(source: ISettingRegistry.ISettings): void {
    this.source = source;
    source.changed.connect(() => this.read(source.composite));
    this.read(source.composite);
  }

  async setMarks(on: boolean): Promise<void> {
    if (this.source !== null) await this.source.set("marks", on);
    else this.read({ marks: on });
  }

  read(raw: Readonly<Record<string, unknown>>): void {
    this.marks = raw.marks !== false;
    this.theme = raw.theme === "light" || raw.theme === "dark" ? raw.theme : "follow";
    this.autoDiagnose = raw.autoDiagnose === true;
    const largest = Number(raw.largestTrace);
    this.largestTrace = (Number.isFinite(largest) && largest > 0 ? largest : LARGEST) * MEGABYTE;
    this.changed.emit();
  }
}

/** Panels look for this attribute before they ask JupyterLab: `views/theme.ts`. */
function applyTheme(theme: Theme): void {
  if (theme === "follow") delete document.body.dataset.tdTheme;
  else document.body.dataset.tdTheme = theme;
}

export const settingsPlugin: JupyterFrontEndPlugin<ITapeSettings> = {
  id: ID,
  description: "Marks, theme, diagnosis after recording, the largest trace: the settings of tapedebug.",
  autoStart: true,
  optional: [ISettingRegistry],
  provides: ITapeSettings,
  activate: (app: JupyterFrontEnd, registry: ISettingRegistry | null) => {
    const settings = new Settings();
    settings.changed.connect(() => applyTheme(settings.theme));
    void Promise.all([registry?.load(ID), app.restored]).then(
      ([source]) => source && settings.follow(source),
      (error: Error) => console.warn(`tapedebug uses its default settings: ${error.message}`),
    );
    return settings;
  },
};
