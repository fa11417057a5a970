// Every drawing of the page, once. Used by `<use href="#…">`, so that colours follow the text.

export function Sprite() {
  return (
    <svg class="sprite" aria-hidden="true">
      <defs>
        <symbol id="skep" viewBox="0 0 24 24">
          <g fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"><path d="M9 3.600h6M5.8 7.500h12.400M4 11.400h16M3.4 15.300h17.2"/><path d="M3.4 19.200h5.400M15.2 19.200h5.4"/></g>
        </symbol>
        <symbol id="i-home" viewBox="0 0 16 16">
          <path d="M2.5 7.2 8 2.500l5.5 4.700V13a.5.5 0 0 1-.5.5H9.800V10H6.200v3.500H3a.5.5 0 0 1-.5-.5Z"/>
        </symbol>
        <symbol id="i-chat" viewBox="0 0 16 16">
          <path d="M2.5 3.500h11v7.500H7l-3 2.500V11H2.500Z"/>
        </symbol>
        <symbol id="i-search" viewBox="0 0 16 16">
          <circle cx="7" cy="7" r="4.3"/><path d="m10.2 10.2 3.3 3.3"/>
        </symbol>
        <symbol id="i-menu" viewBox="0 0 16 16">
          <path d="M2.5 4.500h11M2.5 8h11M2.5 11.500h11"/>
        </symbol>
        <symbol id="i-pen" viewBox="0 0 16 16">
          <path d="m3 13 .6-2.700L10.8 3l2.2 2.2-7.3 7.200Z"/>
        </symbol>
        <symbol id="i-warn" viewBox="0 0 16 16">
          <path d="M8 2.3 14.2 13H1.800ZM8 6.500v3M8 11.200v.1"/>
        </symbol>
        <symbol id="i-mail" viewBox="0 0 16 16">
          <path d="M2 3.500h12v9H2ZM2.3 4 8 8.5 13.7 4"/>
        </symbol>
        <symbol id="i-chev" viewBox="0 0 16 16">
          <path d="m6 3.5 4.5 4.500L6 12.5"/>
        </symbol>
        <symbol id="i-stop" viewBox="0 0 16 16">
          <path d="M4 4h8v8H4Z"/>
        </symbol>
        <symbol id="i-send" viewBox="0 0 16 16">
          <path d="M8 13V3M3.8 7.2 8 3l4.2 4.2"/>
        </symbol>
        <symbol id="i-clip" viewBox="0 0 16 16">
          <path d="M12.5 7.5 8 12a3 3 0 0 1-4.3-4.200l5-5a2 2 0 0 1 2.9 2.800L6.8 10.400a.9.9 0 0 1-1.3-1.300L9.5 5"/>
        </symbol>
        <symbol id="i-slash" viewBox="0 0 16 16">
          <path d="M2.5 2.500h11v11h-11ZM9.5 5l-3 6"/>
        </symbol>
        <symbol id="i-file" viewBox="0 0 16 16">
          <path d="M4 2h5l3 3v9H4ZM9 2v3h3"/>
        </symbol>
        <symbol id="i-more" viewBox="0 0 16 16">
          <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" stroke-width="2.2"/>
        </symbol>
        <symbol id="i-plus" viewBox="0 0 16 16">
          <path d="M8 3v10M3 8h10"/>
        </symbol>
        <symbol id="i-x" viewBox="0 0 16 16">
          <path d="m4 4 8 8M12 4l-8 8"/>
        </symbol>
        <symbol id="s-run" viewBox="0 0 12 12">
          <circle class="ring" cx="6" cy="6" r="5" fill="none" stroke="currentColor" stroke-width="1"/><circle cx="6" cy="6" r="3.2" fill="currentColor"/>
        </symbol>
        <symbol id="s-wait" viewBox="0 0 12 12">
          <path d="m6 1 4.3 2.500v5L6 11 1.7 8.500v-5Z" fill="currentColor" stroke="var(--honey-edge)" stroke-linejoin="round"/>
        </symbol>
        <symbol id="s-idle" viewBox="0 0 12 12">
          <circle cx="6" cy="6" r="3.4" fill="none" stroke="currentColor" stroke-width="1.4"/>
        </symbol>
        <symbol id="s-queue" viewBox="0 0 12 12">
          <circle cx="6" cy="6" r="3.6" fill="none" stroke="currentColor" stroke-width="1.4" stroke-dasharray="1.9 1.9"/>
        </symbol>
        <symbol id="s-stop" viewBox="0 0 12 12">
          <rect x="2.5" y="2.5" width="7" height="7" rx="1" fill="none" stroke="currentColor" stroke-width="1.4"/>
        </symbol>
        <symbol id="s-fail" viewBox="0 0 12 12">
          <path d="M6 .9 11.7 11H.3Z" fill="currentColor"/><path d="M6 4.300v3M6 9v.2" stroke="var(--surface)" stroke-width="1.3" stroke-linecap="round"/>
        </symbol>
        <symbol id="s-done" viewBox="0 0 12 12">
          <path d="m2 6.4 2.7 2.700L10 3.5" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"/>
        </symbol>
      </defs>
    </svg>
  );
}
