export function nest(css: string, scope: string): string;
