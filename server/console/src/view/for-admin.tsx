// The place of something that takes a token for scope `admin`.

export function ForAdmin({ what }: { what: string }) {
  return <p class="empty">{what}: log in with a token for scope admin.</p>;
}
