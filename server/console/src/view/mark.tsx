// The mark of ebb: a tide that goes out.

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
      <path d="M2 7c3.3-3.3 6.7-3.3 10 0s6.7 3.3 10 0" opacity=".35" />
      <path d="M2 13c3.3-3.3 6.7-3.3 10 0s6.7 3.3 10 0" opacity=".65" />
      <path d="M2 19c3.3-3.3 6.7-3.3 10 0s6.7 3.3 10 0" />
    </svg>
  );
}
